"""Exported and read back by a reader that follows the framework's own, a plan means what it meant."""
import json
import random
import unittest

import deepspeed_reader
import galvatron_reader
import megatron_reader
import meaning
import random_plans
import torch_reader
from program import ProgramTest, run, seed

PLANS = 40  # of each target
READERS = {
    "megatron": lambda answer, world, shape: megatron_reader.read(answer["arguments"], world, shape),
    "deepspeed": lambda answer, world, shape: deepspeed_reader.read(answer["file_text"], world, shape),
    "galvatron": lambda answer, world, shape: galvatron_reader.read(answer["file_text"], world, shape),
    "ddp": lambda answer, world, shape: torch_reader.read(answer["file_text"], world, shape),
    "fsdp": lambda answer, world, shape: torch_reader.read(answer["file_text"], world, shape),
}


def random_shape(generator):
    width = generator.choice([1, 2])
    ends = generator.choice([0, 1, 1, 2])
    return meaning.Shape(generator.randint(4, 12), before=ends, after=ends, width=width)


class RoundTrip(ProgramTest):
    def check(self, target):
        base = seed()
        for number in range(PLANS):
            generator = random.Random(f"{base}/{target}/{number}")
            shape = random_shape(generator)
            plan = random_plans.GENERATORS[target](generator, shape)
            done = self.export(plan, shape.document(plan["global_batch"]), target)
            about = f"plan {number} of seed {base}: {json.dumps(plan)}"
            self.assertEqual(done.returncode, 0, about + done.stderr)
            world = max(device for stage in plan["stages"] for device in stage["devices"]) + 1
            read = READERS[target](json.loads(done.stdout), world, shape)
            self.assertEqual(read, meaning.of_plan(plan), about)
            if target == "megatron":
                self.check_import(json.loads(done.stdout)["arguments"], world, plan, about)

    def check_import(self, arguments, world, plan, about):
        """The program reads its own arguments back."""
        done = run("plan", "import", "--model", self.folder / "model.json", "--ranks", world, "--", *arguments)
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


if __name__ == "__main__":
    unittest.main()
