"""Megatron-LM's own pretrain_gpt.py on Gloo ranks, from a folder Megatron-LM in TRIMTAB_SOURCES: its train_step is found and told. CUDA is
replaced (scripts/megatron_on_cpu.py), so times are not those of a GPU. Its dataset's helpers are compiled with pybind11."""
import datetime
import os
import pathlib
import re
import shutil
import statistics
import unittest

from framework_job import NEAR, PYTHON, TORCHRUN, WARM, FrameworkTest, long
from watched_job import part

SOURCES = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere")) / "Megatron-LM"
NEEDED = ("megatron", "pretrain_gpt.py", "model_provider.py", "gpt_builders.py")
STEPS = 40
EVALUATED = 10  # Iterations from one evaluation to the next.
MODEL = ("--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "32", "--max-position-embeddings", "32",
         "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "127", "--num-workers", "0")
TRAINING = ("--micro-batch-size", "2", "--global-batch-size", "8", "--train-iters", str(STEPS), "--lr", "1e-3", "--lr-decay-style", "constant",
            "--log-interval", "1", "--eval-interval", str(EVALUATED), "--eval-iters", "1")
ON_CPU = ("--transformer-impl", "local", "--distributed-backend", "gloo", "--no-persist-layer-norm", "--no-gradient-accumulation-fusion",
          "--no-masked-softmax-fusion", "--no-bias-gelu-fusion", "--no-bias-dropout-fusion")
EXPERTS = ("--num-experts", "4", "--expert-model-parallel-size", "2")
LOG = re.compile(r"\[([\d -]+[\d:.]+)\] iteration +(\d+)/.* lm loss: ([\d.E+-]+) .*grad norm: ([\d.]+)")


def logged(run):
    """What Megatron-LM prints of each iteration: when, its number, loss and gradient norm."""
    lines = filter(None, map(LOG.search, run.job.output.splitlines()))
    return [(datetime.datetime.fromisoformat(line[1]), int(line[2]), float(line[3]), float(line[4])) for line in lines]


def took_ms(own):
    """By step, from line to line, but for those behind evaluations. Its own times of iterations lack a barrier, which takes 20 ms on a
    busy machine."""
    return {number: (then - before) / datetime.timedelta(milliseconds=1) for (before, number, *_), (then, *_) in zip(own, own[1:])
            if number % EVALUATED != 0}


@unittest.skipUnless(all((SOURCES / name).exists() for name in NEEDED), "TRIMTAB_SOURCES has no Megatron-LM")
class Megatron(FrameworkTest):
    def train(self, *plan, microbatches, facts, connections="1"):
        # A copy: the compiled helpers go beside their source.
        sources = pathlib.Path(self.folder) / "Megatron-LM"
        sources.mkdir()
        for name in NEEDED:
            (shutil.copytree if (SOURCES / name).is_dir() else shutil.copy)(SOURCES / name, sources / name)
        arguments = (str(sources / "pretrain_gpt.py"), *MODEL, *TRAINING, *ON_CPU, *plan)
        alone, watched = self.both("megatron_on_cpu.py", *TORCHRUN, arguments=arguments, CUDA_DEVICE_MAX_CONNECTIONS=connections,
                                   PATH=f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}")
        own = logged(watched)
        self.assertEqual([values for _, *values in logged(alone)], [values for _, *values in own])
        self.assertEqual(len(own), STEPS)
        for rank in (0, 1):
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(STEPS)))
            self.assertEqual({(step["count"], step["tokens"], step["microbatches"]) for step in steps},
                             {(2 * microbatches, 64 * microbatches, microbatches)})
            self.assert_shares(steps, took_ms(own))
            stages = facts.get("stages", 1)
            stage = stages - 1 and rank
            for number, (step, (_, _, loss, norm)) in enumerate(zip(steps, own)):
                self.assertAlmostEqual(step["gradient_norm"], norm, places=2)
                self.assertEqual("loss" in step, stage + 1 == stages)  # The last stage knows it.
                if "loss" in step and number != 1:  # Megatron-LM's second line has the mean of both.
                    self.assertAlmostEqual(step["loss"], loss, places=4)
            told = watched.job.facts(rank)
            expected = {"framework": "megatron", "batch_size": 2, "stage": stage, "layers": 2, "accumulation": microbatches, **facts}
            self.assertEqual({name: told.get(name, 0) for name in expected}, expected)
        return watched

    def assert_shares(self, steps, own_ms):
        """Where steps go is seen, and what is left is little: logging, and calls between the passes of a small model."""
        numbers = [number for number in own_ms if number >= WARM]
        same = [steps[number] for number in numbers]
        # Their mean: between a step's end and its line lies a barrier, so that a long step may be the line's before.
        told, own = (statistics.mean(took) for took in ([step["wall_ns"] / 1e6 for step in same], [own_ms[number] for number in numbers]))
        self.assertLess(abs(told / own - 1), NEAR, f"{told} ms are told, the log has {own}")
        passes = ("forward", "backward", "optimizer", "communication")
        for name in passes:
            self.assertGreater(part(same, name), 0, name)
        seen = [sum(step["parts"][f"{name}_ns"] for name in ("data", *passes)) / step["wall_ns"] for step in same]
        self.assertGreater(statistics.median(seen), 0.65)

    def test_replicas(self):
        self.train(microbatches=2, facts={"tensor_parallel": 1, "stages": 1})

    def test_tensor_parallelism(self):
        self.train("--tensor-model-parallel-size", "2", microbatches=4, facts={"tensor_parallel": 2, "stages": 1})

    def test_pipeline(self):
        self.train("--num-layers", "4", "--pipeline-model-parallel-size", "2", microbatches=4, facts={"tensor_parallel": 1, "stages": 2})

    @long
    def test_interleaved_stages(self):
        """A rank has two parts of the model, with a layer in each. Both are recomputed."""
        watched = self.train("--num-layers", "4", "--pipeline-model-parallel-size", "2", "--num-layers-per-virtual-pipeline-stage", "1",
                             "--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1",
                             microbatches=4, facts={"stages": 2, "virtual_stages": 2, "checkpointed_layers": 2})
        for rank in (0, 1):
            self.assertGreater(part(watched.job.steps(rank), "recompute"), 0)

    @long
    def test_experts_that_gather_tokens(self):
        self.train(*EXPERTS, "--moe-token-dispatcher-type", "allgather", microbatches=2, facts={"expert_parallel": 2})

    @long
    def test_experts_that_exchange_tokens(self):
        """Of the four experts a token passes one, and a rank has two."""
        watched = self.train(*EXPERTS, "--moe-token-dispatcher-type", "alltoall", "--moe-router-topk", "1", "--moe-router-pre-softmax",
                             microbatches=2,
                             facts={"expert_parallel": 2})
        told = watched.job.facts()
        expert = 2 * (64 * 256 + 256 + 256 * 64 + 64)  # In both layers.
        self.assertEqual(told["parameters"] - told["active_parameters"], expert)

    @long
    def test_experts_whose_exchange_is_hidden(self):
        """One microbatch's forward pass runs beside another's backward pass, layer by layer."""
        self.train(*EXPERTS, "--moe-token-dispatcher-type", "alltoall", "--overlap-moe-expert-parallel-comm", "--bf16", microbatches=2,
                   facts={"expert_parallel": 2, "dtype": "bfloat16"}, connections="32")

    @long
    def test_megatron_fsdp(self):
        self.train("--use-megatron-fsdp", "--data-parallel-sharding-strategy", "optim_grads_params", "--ckpt-format", "fsdp_dtensor",
                   "--no-gradient-reduce-div-fusion", microbatches=2, facts={"sharding": "megatron-fsdp", "parameters": 110336},
                   connections="8")

    @long
    def test_torch_fsdp2(self):
        self.train("--use-torch-fsdp2", "--untie-embeddings-and-output-weights", microbatches=2,
                   facts={"sharding": "torch-fsdp2", "parameters": 118528}, connections="8")

    @long
    def test_shared_sequences(self):
        """A card divides samples and tokens by the ranks that share them."""
        self.train("--context-parallel-size", "2", microbatches=4, facts={"context_parallel": 2})


if __name__ == "__main__":
    unittest.main()
