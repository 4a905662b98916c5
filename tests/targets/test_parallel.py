"""The file of PyTorch's data parallelism, read by the client: what is wrong is named, nothing is lost silently."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import torch  # noqa: E402
from trimtab import parallel  # noqa: E402

GOOD = {"schema": "trimtab.parallel/1", "kind": "fsdp", "world_size": 4, "global_batch": 32,
        "samples_per_microbatch": 4, "accumulation_steps": 2, "layers": 3, "checkpoint_layers": [0],
        "sharding_strategy": "FULL_SHARD", "shard_group_size": 4}


class Parse(unittest.TestCase):
    def refuse(self, words, **changes):
        given = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
        with self.assertRaisesRegex(parallel.BadConfiguration, words):
            parallel.parse(json.dumps(given), "fsdp.json")

    def test_a_good_one(self):
        made = parallel.parse(json.dumps(GOOD), "fsdp.json")
        self.assertEqual(made.samples_per_rank, 8)
        self.assertEqual(parallel.fsdp_arguments(made), {"sharding_strategy": "FULL_SHARD"})

    def test_what_is_wrong_is_named(self):
        self.refuse("schema", schema="trimtab.parallel/2")
        self.refuse("kind", kind="horovod")
        self.refuse("not the global batch of 33", global_batch=33)
        self.refuse("fsdp.json: weather", weather="fine")
        self.refuse("accumulation_steps", accumulation_steps=None)
        with self.assertRaisesRegex(parallel.BadConfiguration, "no JSON"):
            parallel.parse("{", "fsdp.json")
        with self.assertRaisesRegex(parallel.BadConfiguration, "cannot read /nowhere"):
            parallel.load("/nowhere")


class Samples(unittest.TestCase):
    def test_trees_are_cut_along_the_samples(self):
        batch = {"x": torch.arange(6), "more": (torch.arange(12).reshape(6, 2), [torch.ones(6)])}
        parts = parallel.split_samples(batch, 3)
        self.assertEqual(len(parts), 3)
        self.assertEqual(parts[1]["x"].tolist(), [2, 3])
        self.assertEqual(parts[2]["more"][0].tolist(), [[8, 9], [10, 11]])
        with self.assertRaisesRegex(parallel.BadConfiguration, "4 equal microbatches"):
            parallel.split_samples(batch, 4)


if __name__ == "__main__":
    unittest.main()
