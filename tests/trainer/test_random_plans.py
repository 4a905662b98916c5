"""Plans drawn at random from the whole space train what one process trains, from the start and switched between.

TRIMTAB_TEST_LONG=1 draws many more.
"""
import json
import os
import random
import tomllib
import unittest

from harness import SEED, SINGLE, STEADY, JobTest, plan
from random_plans import random_plan, text

import config
import holding
from model import operator_specs

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
PLANS = 120 if LONG else 14
CHAIN = 30 if LONG else 14  # Changes of one job.
LOSS, NORM = 1e-5, 1e-4  # Relative, in float32: summed in another order.
SCRIPT = os.path.join("..", "tests", "trainer", "train_plans.py")


class RandomPlans(JobTest):
    def drawn(self, salt, world_size, count, model):
        generator = random.Random(f"{SEED} {salt}")
        parsed = config.from_document(tomllib.loads(model))
        return [random_plan(generator, world_size, parsed) for _ in range(count)]

    def trained(self, documents, world_size, steps, *extra, config_path=None):
        """The log lines of train_plans.py, in order."""
        config_path = config_path or self.write("steady.toml", STEADY)
        run = self.start(documents, world_size, steps, *extra, script=SCRIPT, config=config_path).wait(600)
        self.assertEqual(run.codes, [0] * world_size, f"seed {SEED}: {run.errors}")
        return run.lines()

    def assert_like_one_process(self, lines, wanted, documents):
        for line in lines:
            alone = wanted[line["step"]]
            with self.subTest(seed=SEED, step=line["step"], plan=text(documents[line["plan"]])):
                self.assertEqual(line["samples"], alone["samples"])
                self.assertLessEqual(abs(line["loss"] / alone["loss"] - 1), LOSS)
                self.assertLessEqual(abs(line["gradient_norm"] / alone["gradient_norm"] - 1), NORM)

    def test_each_from_the_beginning(self):
        wanted = self.trained([SINGLE], 1, 3)
        for world_size in (2, 4):
            documents = self.drawn("start", world_size, PLANS, STEADY)
            lines = self.trained(documents, world_size, 3)
            self.assertEqual(len(lines), 3 * PLANS)
            self.assert_like_one_process(lines, wanted, documents)

    def test_each_from_where_the_one_before_ended(self):
        wanted = self.trained([SINGLE], 1, 2 * CHAIN)
        for number in range(PLANS // CHAIN):
            documents = self.drawn(f"switch {number}", 4, CHAIN, STEADY)
            lines = self.trained(documents, 4, 2, "--switch")
            self.assertEqual([line["step"] for line in lines], list(range(2 * CHAIN)))
            self.assert_like_one_process(lines, wanted, documents)

    def test_with_dropout_and_weight_decay(self):
        model = STEADY + "dropout = 0.1\nweight_decay = 0.1\n"
        path = self.write("dropout.toml", model)
        wanted = self.trained([SINGLE], 1, CHAIN, config_path=path)
        documents = self.drawn("dropout", 4, CHAIN // 2, model)
        self.assert_like_one_process(self.trained(documents, 4, 2, "--switch", config_path=path), wanted, documents)

    def test_recompute_changes_no_bit(self):
        model = STEADY + "dropout = 0.1\n"
        documents = []
        for document in self.drawn("recompute", 4, 6, model):
            for everything in (False, True):
                copied = json.loads(text(document))
                for segment in (segment for stage in copied["stages"] for segment in stage["segments"]):
                    segment["recompute"] = [segment["operators"]] if everything else []
                documents.append(copied)
        lines = self.trained(documents, 4, 3, config_path=self.write("dropout.toml", model))
        by_plan = [[(line["loss"], line["gradient_norm"]) for line in lines if line["plan"] == number]
                   for number in range(len(documents))]
        for kept, recomputed, document in zip(by_plan[::2], by_plan[1::2], documents[::2]):
            with self.subTest(seed=SEED, plan=text(document)):
                self.assertEqual(kept, recomputed)

    def test_ranges_name_every_collective_with_its_size(self):
        stage = {"devices": [0, 1, 2, 3], "segments": [
            {"operators": [0, 1], "dp": 2, "tp": 2, "sharded": "gradients"},
            {"operators": [1, 2], "dp": 4, "sharded": "parameters", "sharded_degree": 2, "recompute": [[1, 2]]},
            {"operators": [2, 8], "dp": 2, "tp": 2, "tp_consecutive": False}]}
        counts = self.trained([plan([], 4) | {"stages": [stage]}], 4, 1, "--ranges")[-1]
        model = config.from_document(tomllib.loads(STEADY))
        embedding, attention = (4 * holding.alone(operator_specs(model)[i], model, 2 if i == 0 else 1).count
                                for i in (0, 1))
        activation, microbatches = 4 * 16 * 32, 3  # Bytes of a sample.
        wanted = {
            f"comm/all_reduce/2 {2 * activation}": microbatches,  # Of the embedding, forward.
            f"comm/reduce_scatter/2 {embedding}": microbatches,
            f"comm/all_gather/2 {embedding // 2}": 1,  # After the update.
            f"comm/all_gather/2 {attention // 2}": 2 * microbatches,  # Before each pass.
            f"comm/reduce_scatter/2 {attention}": microbatches,
            f"comm/all_reduce/2 {attention // 2}": 1,  # Over the copies.
            f"comm/all_to_all/4 {activation}": microbatches,  # From four replicas to two of other ranks,
            "op/layer0-attention/recompute 1": microbatches,
            "op/layer0-attention/backward 1": microbatches,
            "op/head/forward 2": microbatches,
            "optimizer 0": 1,
        }
        for name, count in wanted.items():
            self.assertGreaterEqual(counts.get(name, 0), count, f"{name} of {counts}")


if __name__ == "__main__":
    unittest.main()
