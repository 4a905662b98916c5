"""The plan decides how a step is computed, never what is learnt. By the classes of knobs: an exact one changes no bit, a
rounding one only the order of sums; with dropout, weight decay, padded samples and in both precisions. None of this
trainer's knobs is statistical: masks belong to samples, under tensor parallelism too.

An exact plan trains three steps in float32: what the first update hides of a gradient, the second shows. Other plans, whose
gradient norms are compared, train two. In bfloat16 all train two, the first and the last plan of each exact group and every other
rounding one. TRIMTAB_TEST_LONG=1 trains them all, and three steps.
"""
import os
import tomllib
import unittest

import torch

from harness import GLOBAL_BATCH, SINGLE, STEADY, JobTest, plan

import config
import data
from tensor_parallel import ALONE, cross_entropy_sum

SCRIPT = os.path.join("..", "tests", "trainer", "train_plans.py")
LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
MOST, LEAST = 3, 3 if LONG else 2  # Steps.
MODEL = STEADY + "dropout = 0.2\nweight_decay = 0.1\npadding = 0.5\n"
# Relative, of loss and gradient norm: one rounding of an activation is 2**-9 in bfloat16, and means of many are compared.
TOLERANCES = {"float32": (1e-5, 1e-4), "bfloat16": (5e-4, 1e-2)}


def segments(*fields, devices=(0, 1, 2, 3), microbatch=4, **schedule):
    """A plan of one stage."""
    return {**plan([], microbatch, **schedule), "stages": [{"devices": list(devices), "segments": [
        {"operators": [begin, end], **rest} for begin, end, rest in fields]}]}


def sharing(*fields, **rest):
    """The same with sequence parallelism."""
    return {**segments(*fields, **rest), "target_knobs": {"sequence_parallel": True}}


def rounds(fields, stages=4, **rest):
    """Interleaved stages on two groups of two ranks."""
    cuts = [number * 8 // stages for number in range(stages + 1)]
    return {**plan([], 2, kind="interleaved"), **rest, "stages": [
        {"devices": [[0, 1], [2, 3]][number % 2], "segments": [{"operators": [begin, end], **fields}]}
        for number, (begin, end) in enumerate(zip(cuts, cuts[1:]))]}


FOUR = [([0], 0, 2, []), ([1], 2, 5, []), ([2], 5, 7, []), ([3], 7, 8, [])]
# Each of a group computes the same bits.
EXACT = {
    "stages and their ranks, recompute, transfers, schedule": [
        plan(FOUR, 3),
        plan([([3], 0, 1, []), ([1], 1, 4, []), ([0], 4, 5, []), ([2], 5, 8, [])], 3),
        plan([(devices, begin, end, [[begin, end]]) for devices, begin, end, _ in FOUR], 3),
        plan(FOUR, 3, transfers="eager"),
        plan(FOUR, 3, kind="gpipe"),
        plan([([number % 4], number, number + 1, [[number, number + 1]] if number in (3, 6) else []) for number in range(8)], 3,
             kind="interleaved", transfers="eager"),
    ],
    "recompute of what ranks share sequences of, tensor-parallel ones": [
        sharing((0, 8, {"tp": 4})),
        sharing((0, 3, {"tp": 4, "recompute": [[0, 2]]}), (3, 8, {"tp": 4, "recompute": [[3, 8]]})),
    ],
    "context-parallel ones": [
        segments((0, 8, {"cp": 4})),
        segments((0, 3, {"cp": 4, "recompute": [[0, 2]]}), (3, 8, {"cp": 4, "recompute": [[3, 8]]})),
    ],
    "both": [
        sharing((0, 8, {"tp": 2, "cp": 2})),
        sharing((0, 8, {"tp": 2, "cp": 2, "recompute": [[0, 8]]}), devices=(2, 0, 3, 1)),
    ],
    "recompute and cuts of tensor-parallel operators": [
        segments((0, 8, {"dp": 2, "tp": 2})),
        segments((0, 8, {"dp": 2, "tp": 2, "recompute": [[0, 8]]})),
        segments((0, 3, {"dp": 2, "tp": 2}), (3, 8, {"dp": 2, "tp": 2, "recompute": [[4, 5]]})),
        segments((0, 8, {"dp": 2, "tp": 2}), devices=(2, 3, 0, 1)),
    ],
    "what waits on the host": [
        segments((0, 8, {"dp": 2, "tp": 2, "recompute": [[0, 8]]})),
        segments((0, 8, {"dp": 2, "tp": 2, "recompute": [[0, 8]],
                         "switches": {"offload_hidden": [[0, 3], [4, 7]], "offload_optimizer": True}})),
    ],
    "parameters and gradients on the host, one replica": [
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]]})),
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]], "switches": {
            "offload_optimizer": True, "partition_parameters": [[0, 8]], "lazy_prefetch": [[0, 8]]}})),
        segments((0, 8, {"tp": 4, "recompute": [[2, 5]], "switches": {
            "partition_parameters": [[1, 4], [7, 8]], "lazy_prefetch": [[1, 3], [7, 8]], "economical_backward": [[0, 8]]}})),
    ],
    "shares of parameters on the host, the order of what comes and leaves": [
        segments((0, 8, {"dp": 4, "sharded": "parameters", "recompute": [[0, 8]]})),
        *(segments((0, 8, {"dp": 4, "sharded": "gradients", "recompute": [[0, 8]], "switches": {
            "offload_optimizer": True, "offload_hidden": [[1, 5]], "partition_parameters": [[0, 8]], **rest}}))
          for rest in ({}, {"lazy_prefetch": [[0, 8]]}, {"lazy_prefetch": [[0, 8]], "economical_forward": [[0, 8]]},
                       {"lazy_prefetch": [[2, 6]], "economical_backward": [[0, 8]]},
                       {"lazy_prefetch": [[0, 8]], "economical_forward": [[1, 4]], "economical_backward": [[3, 8]],
                        "segment_sync": [[0, 8]]})),
    ],
    "recompute of sub-batches, in one pass or two": [
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]], "switches": {"offload_hidden": [[0, 8]]}}), sub_batches=2),
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]]}), sub_batches=2),
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]]}), sub_batches=2, cross_pass=True),
        segments((0, 8, {"tp": 4, "recompute": [[0, 8]]}), sub_batches=2, cross_pass=True,
                 recompute_after_communication=True),
        segments((0, 8, {"tp": 4}), sub_batches=2),
    ],
}
ROUNDING = {
    "two replicas in the last stage only": plan([([0], 0, 3, []), ([1], 3, 5, []), ([2, 3], 5, 8, [[5, 6]])], 4),
    "slices that overlap unevenly, eager": plan([([0, 1, 2], 0, 3, [[0, 1]]), ([3], 3, 8, [])], 6, transfers="eager"),
    "sub-batches that have nothing to hide": plan([([0, 1], 0, 4, []), ([2, 3], 4, 8, [])], 4, sub_batches=2),
    "gradients that leave for the host while sub-batches are recomputed": segments(
        (0, 7, {"dp": 2, "tp": 2, "sharded": "gradients", "recompute": [[0, 7]],
                "switches": {"offload_optimizer": True, "economical_backward": [[0, 6]]}}),
        (7, 8, {"tp": 4, "switches": {"offload_optimizer": True}}), sub_batches=2),
    "one microbatch, sliced": plan(FOUR, GLOBAL_BATCH, sliced_microbatches=1),
    "the vocabulary in four parts": segments((0, 8, {"tp": 4}), microbatch=GLOBAL_BATCH),
    "four replicas": segments((0, 8, {"dp": 4})),
    "shared optimizer states": segments((0, 8, {"dp": 4, "sharded": "optimizer"})),
    "shared gradients, two copies": segments((0, 8, {"dp": 4, "sharded": "gradients", "sharded_degree": 2})),
    "parameters of some operators released": segments((0, 8, {
        "dp": 4, "sharded": "gradients", "recompute": [[2, 6]],
        "switches": {"offload_optimizer": True, "partition_parameters": [[1, 4], [6, 7]], "offload_hidden": [[2, 4]],
                     "segment_sync": [[0, 8]]}})),
    "shared parameters": segments((0, 8, {"dp": 4, "sharded": "parameters", "recompute": [[2, 6]]})),
    "shared parameters, two copies": segments((0, 8, {"dp": 4, "sharded": "parameters", "sharded_degree": 2})),
    "replicas whose ranks share sequences and states": segments((0, 8, {"dp": 2, "cp": 2, "sharded": "gradients"})),
    "shards that lie otherwise on each tensor-parallel rank": sharing(
        (0, 5, {"dp": 2, "tp": 2, "sharded": "gradients"}), (5, 8, {"dp": 2, "tp": 2}), devices=(3, 0, 1, 2)),
    "parts of sequences without sequence parallelism": segments((0, 8, {"tp": 2, "cp": 2})),
    "stages whose replicas share sequences": {**plan([], 4), "target_knobs": {"sequence_parallel": True}, "stages": [
        {"devices": devices, "segments": [{"operators": operators, "tp": 2, "sharded": "none"}]}
        for devices, operators in (([3, 1], [0, 4]), ([0, 2], [4, 8]))]},
    "three rounds of shared parameters": rounds({"dp": 2, "sharded": "parameters"}, 6),
    "rounds of ranks that share sequences": rounds({"tp": 2}, target_knobs={"sequence_parallel": True}),
    "degrees that change": segments((0, 3, {"dp": 4}), (3, 6, {"dp": 2, "tp": 2, "tp_consecutive": False}),
                                    (6, 8, {"tp": 4})),
}


class LossParity(JobTest):
    def curves(self, documents, world_size, precision, steps):
        """Of each plan: (loss, gradient norm) of its steps from the beginning."""
        path = self.write("parity.toml", MODEL + f'precision = "{precision}"\n')
        run = self.start(documents, world_size, steps, script=SCRIPT, config=path).wait(300)
        self.assertEqual(run.codes, [0] * world_size, run.errors)
        lines = run.lines()
        self.assertEqual(len({(line["step"], line["samples"]) for line in lines}), steps, "all see the same samples")
        return [[(line["loss"], line["gradient_norm"]) for line in lines if line["plan"] == number]
                for number in range(len(documents))]

    def test_every_plan_trains_like_a_single_process(self):
        alone = {}
        for precision, tolerances in TOLERANCES.items():
            whole = LONG or precision == "float32"
            (alone[precision],) = self.curves([SINGLE], 1, precision, MOST)
            exact = EXACT if whole else {name: [group[0], group[-1]] for name, group in EXACT.items()}
            found = self.curves([document for group in exact.values() for document in group], 4, precision, MOST if whole else LEAST)
            rounding = dict(list(ROUNDING.items())[:: 1 if whole else 2])
            found += self.curves(list(rounding.values()), 4, precision, LEAST)
            for name, group in [*exact.items(), *((name, [document]) for name, document in rounding.items())]:
                curves, found = found[: len(group)], found[len(group) :]
                with self.subTest(name, precision=precision):
                    for curve in curves:
                        self.assertEqual([loss for loss, _ in curve], [loss for loss, _ in curves[0]], "not a bit")
                    self.assert_near(alone[precision][: len(curves[0])], curves[0], tolerances)
        self.assertNotEqual(alone["float32"], alone["bfloat16"])
        self.assert_near(alone["float32"], alone["bfloat16"], (2e-2, 1e-1))

    def assert_near(self, wanted, found, tolerances):
        for step, (one, other) in enumerate(zip(wanted, found, strict=True)):
            for what, left, right, tolerance in zip(("loss", "gradient norm"), one, other, tolerances):
                self.assertLessEqual(abs(left / right - 1), tolerance, f"{what} of step {step}")


class Padding(unittest.TestCase):
    def setUp(self):
        self.config = config.from_document(tomllib.loads(MODEL))
        self.stream = data.TokenStream(self.config)

    def test_lengths_belong_to_samples(self):
        samples = range(200)
        tokens, targets = self.stream.batch(samples)
        lengths = (targets != data.NO_TARGET).sum(1)
        self.assertEqual(int(lengths.sum()), self.stream.counted(samples))
        self.assertEqual(int(lengths.max()), self.config.sequence)
        self.assertLessEqual(int(lengths.min()), self.config.sequence * 5 // 8)
        self.assertGreaterEqual(int(lengths.min()), self.config.sequence // 2)
        for part, whole in zip(self.stream.batch([77]), (tokens, targets)):
            self.assertTrue(torch.equal(part[0], whole[77]), "a sample alone is the sample in a batch")
        for row, length in enumerate(lengths.tolist()):
            self.assertEqual(int(tokens[row, length:].sum()), 0)
            self.assertTrue(bool((targets[row, :length] >= 0).all()), "padding is at the end")

    def test_what_padding_holds_changes_no_loss(self):
        logits = torch.randn(6, 8, generator=torch.Generator().manual_seed(3), requires_grad=True)
        targets = torch.tensor([1, data.NO_TARGET, 7, data.NO_TARGET, 0, 3])
        total = cross_entropy_sum(logits, targets, ALONE)
        total.backward()
        real = targets >= 0
        self.assertEqual(float(total), float(cross_entropy_sum(logits[real], targets[real], ALONE)))
        self.assertEqual(float(logits.grad[~real].abs().sum()), 0.0)


if __name__ == "__main__":
    unittest.main()
