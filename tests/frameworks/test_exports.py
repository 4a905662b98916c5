"""Random plans that the product exports, in the hands of the frameworks' own checks: Megatron-LM's parser, validate_args and
TransformerConfig, from a folder Megatron-LM in TRIMTAB_SOURCES, and DeepSpeed's configuration class."""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "targets"), str(HERE.parent / "client_python")]

import meaning  # noqa: E402
import random_plans  # noqa: E402
from program import ProgramTest, seed  # noqa: E402
from watched_job import PYTHON  # noqa: E402

PLANS = 120 if os.environ.get("TRIMTAB_TEST_LONG") == "1" else 60
SOURCES = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere")) / "Megatron-LM"
TRAINING = ("--lr", "1e-4", "--train-iters", "10", "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "1000")
HEADS = 8


def shape_of(generator):
    return meaning.Shape(generator.randint(4, 12), width=2)


def world_of(plan):
    return max(device for stage in plan["stages"] for device in stage["devices"]) + 1


class Exports(ProgramTest):
    def exported(self, target):
        """Pairs of a plan's shape and what is written of it; one seed's."""
        base = seed()
        for number in range(PLANS):
            generator = random.Random(f"{base}/{target}/{number}")
            shape = shape_of(generator)
            plan = random_plans.GENERATORS[target](generator, shape)
            done = self.export(plan, shape.document(plan["global_batch"], "bfloat16"), target)
            self.assertEqual(done.returncode, 0, f"plan {number} of seed {base}: {json.dumps(plan)}{done.stderr}")
            yield shape, plan, json.loads(done.stdout)

    def check(self, script, cases, *arguments, **environment):
        done = subprocess.run([PYTHON, HERE / "scripts" / script, *arguments], input="".join(json.dumps(case) + "\n" for case in cases),
                              env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False)
        objections = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(objections), len(cases), done.stderr[-4000:])
        return objections

    def assert_accepted(self, cases, objections):
        said = collections.Counter(one for one in objections if one)
        first = next((case for case, one in zip(cases, objections) if one), None)
        self.assertFalse(said, f"of {len(cases)}: {said}; {json.dumps(first)}")

    @unittest.skipUnless((SOURCES / "megatron").exists(), "TRIMTAB_SOURCES has no Megatron-LM")
    def test_megatron(self):
        cases = []
        for number, (shape, plan, written) in enumerate(self.exported("megatron")):
            model = ["--num-layers", str(shape.layers), "--hidden-size", "512", "--num-attention-heads", str(HEADS), "--seq-length",
                     str(shape.sequence), "--max-position-embeddings", str(shape.sequence)]
            # What the job sets, and what the plan needs over it.
            environment = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", **written["environment"]}
            dtype = ["--bf16"] if number % 3 else []
            cases.append({"arguments": [*model, *TRAINING, *dtype, *written["arguments"]], "world": world_of(plan),
                          "environment": environment})
        self.assert_accepted(cases, self.check("megatron_validates.py", cases, SOURCES))
        kinds = {word for case in cases for word in case["arguments"] if word.startswith("--")}
        self.assertLessEqual({"--use-megatron-fsdp", "--optimizer-cpu-offload", "--pipeline-model-parallel-layout", "--sequence-parallel",
                              "--context-parallel-size", "--recompute-modules", "--num-distributed-optimizer-instances",
                              "--overlap-param-gather"}, kinds)
        # The checks are theirs: what they refuse is refused here, too.
        worse = {**cases[1], "arguments": [*cases[1]["arguments"], "--optimizer-cpu-offload", "--num-query-groups", "3"]}
        self.assertNotEqual(self.check("megatron_validates.py", [worse], SOURCES), [""])

    def test_deepspeed(self):
        cases = []
        for _, plan, written in self.exported("deepspeed"):
            config = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "bf16": {"enabled": True},
                      **json.loads(written["file_text"])}
            cases.append({"config": config, "world": world_of(plan)})
        self.assert_accepted(cases, self.check("deepspeed_validates.py", cases, DS_ACCELERATOR="cpu"))
        worse = {"config": {**cases[0]["config"], "train_batch_size": 10_007}, "world": cases[0]["world"]}
        self.assertNotEqual(self.check("deepspeed_validates.py", [worse], DS_ACCELERATOR="cpu"), [""])


if __name__ == "__main__":
    unittest.main()
