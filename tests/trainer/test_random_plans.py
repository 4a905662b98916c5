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
PLANS = 120 if LONG else 10
CHAIN = 30 if LONG else 10  # Changes of one job.
# Relative, of loss and gradient norm: summed in another order.
TOLERANCES = {"float32": (1e-5, 1e-4), "bfloat16": (4e-3, 4e-2)}
MODEL = STEADY + "dropout = 0.1\nweight_decay = 0.1\npadding = 0.4\n"
SCRIPT = os.path.join("..", "tests", "trainer", "train_plans.py")


class RandomPlans(JobTest):
    def drawn(self, salt, world_size, count):
        generator = random.Random(f"{SEED} {salt}")
        parsed = config.from_document(tomllib.loads(MODEL))
        return [random_plan(generator, world_size, parsed) for _ in range(count)]

    def trained(self, documents, world_size, steps, *extra, precision="float32"):
        """The log lines of train_plans.py, in order."""
        path = self.write("random.toml", MODEL + f'precision = "{precision}"\n')
        run = self.start(documents, world_size, steps, *extra, script=SCRIPT, config=path).wait(600)
        self.assertEqual(run.codes, [0] * world_size, f"seed {SEED}: {run.errors}")
        return run.lines()

    def assert_like_one_process(self, lines, wanted, documents, precision="float32"):
        for line in lines:
            alone = wanted[line["step"]]
            with self.subTest(seed=SEED, step=line["step"], plan=text(documents[line["plan"]]), precision=precision):
                self.assertEqual(line["samples"], alone["samples"])
                for what, tolerance in zip(("loss", "gradient_norm"), TOLERANCES[precision]):
                    self.assertLessEqual(abs(line[what] / alone[what] - 1), tolerance)
                largest = max(map(abs, alone["gradients"]))
                for operator, (one, other) in enumerate(zip(line["gradients"], alone["gradients"], strict=True)):
                    self.assertLessEqual(abs(one - other), tolerance * largest, f"gradient of operator {operator}")

    def test_each_from_the_beginning(self):
        wanted = self.trained([SINGLE], 1, 3)
        for world_size in (2, 4, 8) if LONG else (2, 4):
            documents = self.drawn("start", world_size, PLANS if world_size < 8 else PLANS // 3)
            recomputed = len(documents) if world_size == 4 else 0
            documents += self.with_and_without_recompute(self.drawn("recompute", 4, 4)) if recomputed else []
            lines = self.trained(documents, world_size, 3)
            self.assertEqual(len(lines), 3 * len(documents))
            self.assert_like_one_process(lines, wanted, documents)
            by_plan = [[(line["loss"], line["gradient_norm"]) for line in lines if line["plan"] == number]
                       for number in range(recomputed, len(documents))] if recomputed else []
            for kept, again, document in zip(by_plan[::2], by_plan[1::2], documents[recomputed::2]):
                with self.subTest("recompute changes no bit", seed=SEED, plan=text(document)):
                    self.assertEqual(kept, again)

    @staticmethod
    def with_and_without_recompute(documents):
        result = []
        for document in documents:
            for everything in (False, True):
                copied = json.loads(text(document))
                for segment in (segment for stage in copied["stages"] for segment in stage["segments"]):
                    segment["recompute"] = [segment["operators"]] if everything else []
                    segment.pop("switches", None)
                result.append(copied)
        return result

    def test_each_from_where_the_one_before_ended(self):
        for precision in TOLERANCES:
            wanted = self.trained([SINGLE], 1, 2 * CHAIN, precision=precision)
            for number in range(PLANS // CHAIN):
                documents = self.drawn(f"switch {precision} {number}", 4, CHAIN)
                lines = self.trained(documents, 4, 2, "--switch", precision=precision)
                self.assertEqual([line["step"] for line in lines], list(range(2 * CHAIN)))
                self.assert_like_one_process(lines, wanted, documents, precision)

    def test_ranges_name_every_collective_with_its_size(self):
        stage = {"devices": [0, 1, 2, 3], "segments": [
            {"operators": [0, 1], "dp": 2, "tp": 2, "sharded": "gradients"},
            {"operators": [1, 2], "dp": 4, "sharded": "parameters", "sharded_degree": 2, "recompute": [[1, 2]]},
            {"operators": [2, 8], "dp": 2, "tp": 2, "tp_consecutive": False}]}
        parts = {"devices": [0, 1, 2, 3], "segments": [{"operators": [0, 8], "tp": 2, "cp": 2}]}
        counts = self.trained([plan([], 4) | {"stages": [stage]},
                               plan([], 12) | {"stages": [parts], "target_knobs": {"sequence_parallel": True}}],
                              4, 1, "--ranges")[-1]
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
        part, keys = 12 * activation // 4, 12 * activation // 2  # Of the rank: a quarter of each of two, keys and values.
        for name, count in {
            f"comm/all_gather/2 {part}": 7 + 7 + 7,  # Inputs but tokens, once more backwards, and the gradients of results.
            f"comm/reduce_scatter/2 {2 * part}": 7 + 7,  # Results but the loss, and the gradients of inputs.
            f"comm/all_gather/2 {keys}": 3 + 3,
            f"comm/reduce_scatter/2 {2 * keys}": 3,
            f"comm/all_reduce/2 {4 * 32 * (16 + 3 * 3 + 3 * 3 + 2)}": 1,  # Positions, norms and biases.
        }.items():
            self.assertEqual(counts.get(name), count, f"{name} of {counts}")


if __name__ == "__main__":
    unittest.main()
