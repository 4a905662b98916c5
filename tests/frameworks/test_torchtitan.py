"""torchtitan's own training program, its debug model on two Gloo ranks: steps, losses and batch are those of its log."""
import json
import os
import random
import re
import subprocess
import unittest

from framework_job import TORCHRUN, WARM, FrameworkTest, long
from watched_job import PYTHON, part

WORDS = "the model learns from text that nobody wrote and says what a reader would expect of words in a row".split()
STEPS, SAMPLES, LENGTH, ACCUMULATED = 12, 2, 128, 2
ARGUMENTS = ("--module", "llama3", "--config", "llama3_debugmodel", "--parallelism.spmd_backend", "partial_dtensor", "--validator.no-enable",
             "--training.steps", str(STEPS), "--training.local_batch_size", str(SAMPLES), "--training.seq_len", str(LENGTH), "--debug.seed", "1")
LOG = re.compile(r"step:\s*(\d+)\s+loss:\s*([\d.]+)\s+grad_norm:\s*([\d.]+)")
TOKENIZER = f"""
from tokenizers import Tokenizer, models, pre_tokenizers
tokenizer = Tokenizer(models.WordLevel({{word: number for number, word in enumerate({sorted({'<s>', '</s>', *WORDS})!r})}}, unk_token="<s>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.save("tokenizer/tokenizer.json")
"""


def trains():
    """Whether Python has what torchtitan trains with: the environment has what its configurations need."""
    return subprocess.run([PYTHON, "-c", "import datasets, spmd_types, tokenizers, torchdata, torchtitan"], check=False, capture_output=True,
                          env={**os.environ, "HF_HUB_OFFLINE": "1"}).returncode == 0


def logged(run):
    """What each step's line says: its number, loss and gradient norm. Both ranks print them."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", run.job.output + run.job.errors)
    return sorted({int(line[1]): (float(line[2]), float(line[3])) for line in LOG.finditer(plain)}.items())


@unittest.skipUnless(trains(), "datasets, torchdata and spmd_types, which torchtitan trains with, are not installed")
class Torchtitan(FrameworkTest):
    def train(self, *plan, facts):
        made = self.data()
        alone, watched = self.both("torchtitan_on_cpu.py", *TORCHRUN, HF_HUB_OFFLINE="1", HF_HOME=made,
                                   arguments=(*ARGUMENTS, "--hf_assets_path", f"{made}/tokenizer", "--dataloader.dataset_path", f"{made}/text",
                                              *plan))
        own = logged(watched)
        self.assertEqual(len(own), STEPS, watched.job.errors[-2000:])
        self.assertEqual(logged(alone), own)
        microbatches = facts.get("accumulation", 1)
        for rank in (0, 1):
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(STEPS)))
            self.assertEqual({(step["count"], step["tokens"], step["microbatches"]) for step in steps},
                             {(SAMPLES * microbatches, SAMPLES * microbatches * LENGTH, microbatches)})
            for step, (_, (loss, norm)) in zip(steps, own):
                self.assertAlmostEqual(step["loss"], loss, places=4)
                self.assertAlmostEqual(step["gradient_norm"], norm, places=3)
            for name in ("forward", "backward", "optimizer", "communication"):
                self.assertGreater(part(steps[WARM:], name), 0, name)
            told = watched.job.facts(rank)
            expected = {"framework": "torchtitan", "batch_size": SAMPLES, "sequence_length": LENGTH, "layers": 6, "stages": 1, **facts}
            self.assertEqual({name: told.get(name, 0) for name in expected}, expected)

    def data(self):
        made = os.path.join(self.folder, "made")
        for name in ("tokenizer", "text"):
            os.makedirs(os.path.join(made, name))
        subprocess.run([PYTHON, "-c", TOKENIZER], cwd=made, check=True)
        draw = random.Random(1)
        with open(os.path.join(made, "text", "data.json"), "w", encoding="utf-8") as file:
            for _ in range(200):
                print(json.dumps({"text": " ".join(draw.choices(WORDS, k=200))}), file=file)
        return made

    def test_sharded(self):
        self.train(facts={"tensor_parallel": 1})

    def test_resumed(self):
        """Its optimizer steps once before it loads a checkpoint, so that there is a state to load into. That is no step."""
        made = self.data()
        for watched, last in ((False, 3), (True, 6)):
            run = self.launch("torchtitan_on_cpu.py", *TORCHRUN, watched=watched, HF_HUB_OFFLINE="1", HF_HOME=made,
                              arguments=(*ARGUMENTS, "--training.steps", str(last), "--hf_assets_path", f"{made}/tokenizer",
                                         "--dataloader.dataset_path", f"{made}/text", "--checkpoint.enable", "--dump_folder",
                                         os.path.join(self.folder, "kept")))
        for rank in (0, 1):
            self.assertEqual([step["step"] for step in run.job.steps(rank)], [3, 4, 5])

    @long
    def test_replicas_that_accumulate(self):
        self.train("--parallelism.data_parallel_replicate_degree", "2", "--parallelism.data_parallel_shard_degree", "1",
                   "--training.global_batch_size", str(2 * SAMPLES * ACCUMULATED), facts={"accumulation": ACCUMULATED})

    @long
    def test_tensor_parallelism(self):
        self.train("--parallelism.tensor_parallel_degree", "2", facts={"tensor_parallel": 2})


if __name__ == "__main__":
    unittest.main()
