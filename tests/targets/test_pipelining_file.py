"""The file of PyTorch's pipelines, read by the client: what is wrong is named, and a script without one runs what it says itself."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

from trimtab import pipelining  # noqa: E402

GOOD = {"schema": "trimtab.pipelining/1", "schedule": "1F1B", "n_microbatches": 4, "world_size": 4, "group_size": 2, "global_batch": 16,
        "batch_size": 8, "layers": 6, "split_layers": [2], "checkpoint_layers": [0, 5]}


class Parse(unittest.TestCase):
    def test_a_good_one(self):
        made = pipelining.parse(json.dumps(GOOD), "pipelining.json")
        self.assertEqual((made.split_layers, made.checkpoint_layers, made.batch_size), ((2,), (0, 5), 8))

    def test_what_is_wrong_is_named(self):
        for words, changes in (("schema: needs", {"schema": "trimtab.parallel/1"}), ("weather: is not known to this release", {"weather": "fine"}),
                               ("schedule: needs GPipe, 1F1B, Interleaved1F1B, found 'ZBV'", {"schedule": "ZBV"}),
                               ("group_size: must divide 4 ranks, found 3", {"group_size": 3}), ("group_size: must", {"group_size": 0}),
                               ("8 samples of each of 2 pipelines are not the global batch of 8", {"global_batch": 8}),
                               ("n_microbatches: must divide the 8 samples of a step, found 3", {"n_microbatches": 3}),
                               ("split_layers: must rise between 0 and 6", {"split_layers": [6]}),
                               ("split_layers: must rise", {"split_layers": [2, 2, 3]}),
                               ("1F1B needs one stage on each of 2 ranks, found 4 in all", {"split_layers": [1, 2, 3]}),
                               ("Interleaved1F1B needs several stages on each of 2 ranks, found 2 in all", {"schedule": "Interleaved1F1B"})):
            with self.subTest(words=words), self.assertRaises(pipelining.BadConfiguration) as refused:
                pipelining.parse(json.dumps({**GOOD, **changes}), "pipelining.json")
            self.assertIn(f"pipelining.json: {words}", str(refused.exception))


class Load(unittest.TestCase):
    def load(self, **said):
        return pipelining.load(**{"layers": 6, "n_microbatches": 4, "batch_size": 8, **said})

    def test_a_plan_takes_the_place_of_what_a_script_says(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "pipelining.json"
            file.write_text(json.dumps(GOOD), encoding="utf-8")
            with unittest.mock.patch.dict(os.environ, TRIMTAB_TARGET_CONFIG=str(file)):
                run = self.load(n_microbatches=2, schedule="GPipe")
                self.assertEqual((run.configuration.n_microbatches, run.configuration.schedule, run.num_stages), (4, "1F1B", 2))
                with self.assertRaisesRegex(pipelining.BadConfiguration, "the plan counts 6 layers, but load.. was given 7"):
                    self.load(layers=7)
            run.save(file)
            self.assertEqual(json.loads(file.read_text(encoding="utf-8")), GOOD)

    def test_without_one_all_ranks_are_a_pipeline_of_equal_stages(self):
        with unittest.mock.patch.dict(os.environ, {"WORLD_SIZE": "2", "TRIMTAB_TARGET_CONFIG": ""}):
            self.assertEqual(self.load().configuration.split_layers, (3,))
            made = self.load(layers=10, schedule="Interleaved1F1B", stages_per_rank=2).configuration
            self.assertEqual((made.split_layers, made.group_size, made.global_batch), ((3, 5, 8), 2, 8))
            for words, said in (("n_microbatches: must divide", {"n_microbatches": 3}), ("split_layers: must rise", {"layers": 1}),
                                ("1F1B needs one stage", {"stages_per_rank": 2})):
                with self.subTest(words=words), self.assertRaisesRegex(pipelining.BadConfiguration, words):
                    self.load(**said)


if __name__ == "__main__":
    unittest.main()
