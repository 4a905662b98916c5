"""Exported and read back by a reader that follows the framework's own, a plan means what it meant."""
import json
import random
import unittest

import accelerate_reader
import deepspeed_reader
import galvatron_reader
import lightning_reader
import megatron_reader
import meaning
import pipelining_reader
import random_plans
import torch_reader
import torchtitan_reader
import transformers_reader
from program import ProgramTest, run, seed

PLANS = 40  # of each target
FEWER = 20  # of a target that shares its code with another
READERS = {
    "megatron": lambda answer, world, shape: megatron_reader.read(answer["arguments"], world, shape),
    "deepspeed": lambda answer, world, shape: deepspeed_reader.read(answer["file_text"], world, shape),
    "galvatron": lambda answer, world, shape: galvatron_reader.read(answer["file_text"], world, shape),
    "ddp": lambda answer, world, shape: torch_reader.read(answer["file_text"], world, shape),
    "fsdp": lambda answer, world, shape: torch_reader.read(answer["file_text"], world, shape),
    "torchtitan": lambda answer, world, shape: torchtitan_reader.read(answer["arguments"], world, shape),
    "fsdp2": lambda answer, world, shape: torch_reader.read(answer["file_text"], world, shape),
    "pipelining": lambda answer, world, shape: pipelining_reader.read(answer["file_text"], world, shape),
    "accelerate": lambda answer, world, shape: accelerate_reader.read(answer, world, shape),
    "accelerate-deepspeed": lambda answer, world, shape: accelerate_reader.read(answer, world, shape),
    "lightning": lambda answer, world, shape: lightning_reader.read(answer["arguments"], world, shape),
    "lightning-deepspeed": lambda answer, world, shape: lightning_reader.read(answer["arguments"], world, shape),
    "transformers": lambda answer, world, shape: transformers_reader.read(answer["arguments"], world, shape),
    "transformers-deepspeed": lambda answer, world, shape: transformers_reader.read(answer["arguments"], world, shape),
    "torchtitan-0.2": lambda answer, world, shape: torchtitan_reader.read(answer["arguments"], world, shape),
}
IMPORTED = ("megatron", "deepspeed", "galvatron", "torchtitan", "torchtitan-0.2", "transformers", "transformers-deepspeed",
            "accelerate", "accelerate-deepspeed", "lightning", "lightning-deepspeed", "ddp", "fsdp", "fsdp2", "pipelining")


def random_shape(generator):
    width = generator.choice([1, 2])
    ends = generator.choice([0, 1, 1, 2])
    return meaning.Shape(generator.randint(4, 12), before=ends, after=ends, width=width)


class RoundTrip(ProgramTest):
    def check(self, target):
        base = seed()
        for number in range(FEWER if target in (*IMPORTED[5:11], "fsdp2") else PLANS):
            generator = random.Random(f"{base}/{target}/{number}")
            shape = random_shape(generator)
            plan = random_plans.GENERATORS[target](generator, shape)
            done = self.export(plan, shape.document(plan["global_batch"]), target)
            about = f"plan {number} of seed {base}: {json.dumps(plan)}"
            self.assertEqual(done.returncode, 0, about + done.stderr)
            world = max(device for stage in plan["stages"] for device in stage["devices"]) + 1
            read = READERS[target](json.loads(done.stdout), world, shape)
            self.assertEqual(read, meaning.of_plan(plan), about)
            if target in IMPORTED:
                self.check_import(target, json.loads(done.stdout), world, plan, about)

    def check_import(self, target, written, world, plan, about):
        """The program reads back what it wrote. A file says by its members whose it is, arguments do not."""
        words = ["--model", self.folder / "model.json", "--ranks", world]
        if written["file_text"]:
            file = self.folder / written["file_name"]
            file.write_text(written["file_text"], encoding="utf-8")
            words += [file, "--", *written["arguments"]]
        else:
            words += ["--from", target.split("-")[0], "--", *written["arguments"]]
        done = run("plan", "import", *words)
        self.assertEqual(done.returncode, 0, about + done.stderr)
        self.assertEqual(meaning.of_plan(json.loads(done.stdout)), meaning.of_plan(plan), about)

    def test_megatron(self):
        self.check("megatron")

    def test_deepspeed(self):
        self.check("deepspeed")

    def test_galvatron(self):
        self.check("galvatron")

    def test_ddp(self):
        self.check("ddp")

    def test_fsdp(self):
        self.check("fsdp")
        self.check("fsdp2")

    def test_pipelining(self):
        self.check("pipelining")

    def test_torchtitan(self):
        self.check("torchtitan")
        self.check("torchtitan-0.2")

    def test_transformers(self):
        self.check("transformers")
        self.check("transformers-deepspeed")

    def test_accelerate(self):
        self.check("accelerate")
        self.check("accelerate-deepspeed")

    def test_lightning(self):
        self.check("lightning")
        self.check("lightning-deepspeed")


if __name__ == "__main__":
    unittest.main()
