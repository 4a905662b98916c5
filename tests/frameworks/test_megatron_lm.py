"""Megatron-LM's own pretrain_gpt.py on Gloo ranks, from a folder Megatron-LM in TRIMTAB_SOURCES: its train_step is found and told. CUDA is
replaced (scripts/megatron_on_cpu.py), so times are not those of a GPU. Its dataset's helpers are compiled with pybind11."""
import os
import pathlib
import re
import shutil
import statistics
import unittest

from framework_job import PYTHON, TORCHRUN, WARM, FrameworkTest, assert_near_own_log

SOURCES = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere")) / "Megatron-LM"
NEEDED = ("megatron", "pretrain_gpt.py", "model_provider.py", "gpt_builders.py")
STEPS = 40
MODEL = ("--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "32", "--max-position-embeddings", "32",
         "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "127", "--num-workers", "0")
TRAINING = ("--micro-batch-size", "2", "--global-batch-size", "8", "--train-iters", str(STEPS), "--lr", "1e-3", "--lr-decay-style", "constant",
            "--log-interval", "1", "--eval-interval", "10", "--eval-iters", "1")
ON_CPU = ("--transformer-impl", "local", "--distributed-backend", "gloo", "--no-persist-layer-norm", "--no-gradient-accumulation-fusion",
          "--no-masked-softmax-fusion", "--no-bias-gelu-fusion", "--no-bias-dropout-fusion")
LOG = re.compile(r"iteration +(\d+)/.* elapsed time per iteration \(ms\): ([\d.]+) .*lm loss: ([\d.E+-]+) .*grad norm: ([\d.]+)")


def logged(run):
    """What Megatron-LM prints of each iteration: its number, milliseconds, loss and gradient norm."""
    return [(int(line[1]), float(line[2]), float(line[3]), float(line[4])) for line in map(LOG.search, run.job.output.splitlines()) if line]


@unittest.skipUnless(all((SOURCES / name).exists() for name in NEEDED), "TRIMTAB_SOURCES has no Megatron-LM")
class Megatron(FrameworkTest):
    def train(self, *plan, microbatches, place):
        # A copy: the compiled helpers go beside their source.
        sources = pathlib.Path(self.folder) / "Megatron-LM"
        sources.mkdir()
        for name in NEEDED:
            (shutil.copytree if (SOURCES / name).is_dir() else shutil.copy)(SOURCES / name, sources / name)
        arguments = (str(sources / "pretrain_gpt.py"), *MODEL, *TRAINING, *ON_CPU, *plan)
        alone, watched = self.both("megatron_on_cpu.py", *TORCHRUN, arguments=arguments, CUDA_DEVICE_MAX_CONNECTIONS="1",
                                   PATH=f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}")
        self.assertEqual([(number, loss, norm) for number, _, loss, norm in logged(alone)],
                         [(number, loss, norm) for number, _, loss, norm in logged(watched)])
        own = logged(watched)
        self.assertEqual(len(own), STEPS)
        for rank in (0, 1):
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(STEPS)))
            self.assertEqual({(step["count"], step["tokens"], step["microbatches"]) for step in steps},
                             {(2 * microbatches, 64 * microbatches, microbatches)})
            told = statistics.median([(step["wall_ns"] - step["parts"]["aside_ns"]) / 1e6 for step in steps][WARM:])
            assert_near_own_log(self, told, [ms for _, ms, _, _ in own])
            stage = place["stages"] - 1 and rank
            for number, (step, (_, _, loss, norm)) in enumerate(zip(steps, own)):
                self.assertAlmostEqual(step["gradient_norm"], norm, places=2)
                self.assertEqual("loss" in step, stage + 1 == place["stages"])  # The last stage knows it.
                if "loss" in step and number != 1:  # Megatron-LM's second line has the mean of both.
                    self.assertAlmostEqual(step["loss"], loss, places=4)
                self.assertGreater(step["parts"]["backward_ns"], 0)
            facts = watched.job.facts(rank)
            self.assertEqual({name: facts.get(name, 0) for name in ("framework", "stage", *place)},
                             {"framework": "megatron", "stage": stage, **place})

    def test_replicas(self):
        self.train(microbatches=2, place={"tensor_parallel": 1, "stages": 1})

    def test_tensor_parallelism(self):
        self.train("--tensor-model-parallel-size", "2", microbatches=4, place={"tensor_parallel": 2, "stages": 1})

    def test_pipeline(self):
        self.train("--pipeline-model-parallel-size", "2", microbatches=4, place={"tensor_parallel": 1, "stages": 2})


if __name__ == "__main__":
    unittest.main()
