"""In which order a stage of one process issues what its memory switches move, beside what it computes: H3T's order for
either value of each switch, with an operator for a layer, in the middle of a stage and at its ends."""
import tomllib
import unittest
from unittest import mock

import torch
from harness import MODEL
from switched_stage import CPU, SwitchedStage, plan_of

import config
import host_memory
from host_memory import HostCopies
from model import operator_specs

CONFIG = config.from_document(tomllib.loads(MODEL))
SPECS = operator_specs(CONFIG)
FIRST, LAST = 0, len(SPECS) - 1


def events_of(switches, dp=2, recompute=None):
    return SwitchedStage(CONFIG, plan_of(CONFIG, switches, dp, recompute)).events


def wanted(economical_forward, economical_backward, hidden=True):
    """The spec's, of all operators alike: lazy, partitioned, recomputed and (but for tokens) hidden."""
    events = [("PP", FIRST), ("GP", FIRST)]
    for i in range(LAST + 1):
        events += [("free", i - 1)] if i else []
        comes = [("PP", i + 1), ("GP", i + 1)] if i < LAST else []
        leaves = [("OH", i)] if hidden and i else []
        events += [*leaves, *comes] if economical_forward else [*comes, *leaves]
        events += [("F", i)]
    events += [("free", LAST), ("turn", None), ("PP", LAST), ("GP", LAST)] + ([("PH", LAST)] if hidden else [])
    for i in range(LAST, -1, -1):
        events += [("free", i + 1), ("SG", i + 1)] if i < LAST else []
        shown = [("PH", i - 1)] if hidden and i - 1 > FIRST else []
        gathered, left = [("GP", i - 1)] if i else [], [("OG", i + 1)] if i < LAST else []
        events += [("PP", i - 1)] if i else []
        if economical_backward:  # What is queued behind the computation begins with the last one.
            events += [("FG", i), *gathered, *left, *shown, ("BW", i)]
        else:
            events += [*shown, *gathered, *left, ("FG", i), ("BW", i)]
    return [*events, ("free", FIRST), ("SG", FIRST), ("OG", FIRST)]


EVERYWHERE = [[0, LAST + 1]]


class SwitchOrder(unittest.TestCase):
    def assert_order(self, found, expected):
        self.assertEqual("\n".join(map(str, found)), "\n".join(map(str, expected)))

    def test_either_value_of_both_economical_switches(self):
        for forward in (False, True):
            for backward in (False, True):
                switches = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE, "offload_hidden": EVERYWHERE,
                            "economical_forward": EVERYWHERE if forward else [],
                            "economical_backward": EVERYWHERE if backward else []}
                with self.subTest(economical_forward=forward, economical_backward=backward):
                    self.assert_order(events_of(switches), wanted(forward, backward))
                    self.assert_order(events_of(switches, dp=1), wanted(forward, backward))

    def test_the_switch_of_the_operator_that_computes_decides(self):
        switches = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE, "offload_hidden": EVERYWHERE,
                    "economical_forward": [[3, 4]], "economical_backward": [[5, 6]]}
        found, turn = events_of(switches), ("turn", None)
        plain, economical = wanted(False, False), wanted(True, True)
        for operator, in_turn, backward in ((3, economical, False), (2, plain, False), (4, plain, False),
                                            (5, economical, True), (4, plain, True), (6, plain, True)):
            with self.subTest(operator=operator, backward=backward):
                self.assert_order(around(found, turn, operator, backward), around(in_turn, turn, operator, backward))

    def test_one_switch_off_leaves_its_events_out(self):
        every = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE, "offload_hidden": EVERYWHERE}
        for name, gone in (("lazy_prefetch", {"PP"}), ("offload_hidden", {"OH", "PH"})):
            left = {other: ranges for other, ranges in every.items() if other != name}
            with self.subTest(off=name):
                self.assert_order(events_of(left), [event for event in wanted(False, False) if event[0] not in gone])
        kept = events_of(every | {"offload_optimizer": False})
        self.assert_order(kept, [event for event in wanted(False, False) if event[0] != "OG"])

    def test_shares_are_fetched_for_some_operators(self):
        some = {"partition_parameters": [[2, 6]], "lazy_prefetch": [[3, 5]]}
        found = events_of(some)
        fetched = [operator for what, operator in found if what == "PP"]
        gathered = [operator for what, operator in found if what == "GP"]
        self.assertEqual((fetched, gathered), ([3, 4, 4, 3], [2, 3, 4, 5, 5, 4, 3, 2]))
        self.assertLess(found.index(("PP", 3)), found.index(("F", 2)), "one operator ahead")

    def test_without_recompute_what_is_queued_begins_with_the_backward_pass(self):
        switches = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE, "economical_backward": EVERYWHERE}
        self.assert_order(events_of(switches, recompute=[]),
                          [event for event in wanted(False, True, hidden=False) if event[0] != "FG"])

    def test_a_synchronized_layer_joins_before_anything_of_it_is_begun(self):
        switches = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE, "segment_sync": EVERYWHERE}
        found = events_of(switches)
        self.assert_order([event for event in found if event[0] != "join"], wanted(False, False, hidden=False))
        layers = len({spec.layer for spec in SPECS})
        self.assertEqual(found.count(("join", None)), 2 * layers)
        before = found.index(("join", None), found.index(("turn", None)))
        self.assertEqual(found[before + 1], ("PP", LAST - 1))

    def test_between_passes_no_parameter_and_no_gradient_is_on_the_device(self):
        switches = {"partition_parameters": EVERYWHERE, "lazy_prefetch": EVERYWHERE}
        for dp in (1, 2):
            stage = SwitchedStage(CONFIG, plan_of(CONFIG, switches, dp))
            self.assertEqual(stage.device_bytes(), 0)
            self.assertGreater(stage.peak_bytes, 0)
            for state in stage.states:
                with self.subTest(dp=dp, operator=state.spec.name):
                    self.assertEqual(state.holding.held_bytes, state.holding.host_bytes)
                    self.assertGreater(float(state.gradient.abs().sum()), 0, "it was added up where it waits")
                    self.assertTrue(all(parameter.grad is None for parameter in state.module.parameters()))


    def test_gradients_that_are_long_under_way_are_all_there_when_the_step_ends(self):
        for dp in (1, 2):
            document = plan_of(CONFIG, {"partition_parameters": EVERYWHERE}, dp)
            at_once = SwitchedStage(CONFIG, document).states
            with mock.patch.object(host_memory.Leaving, "ready", False):
                late = SwitchedStage(CONFIG, document).states
            for one, other in zip(at_once, late):
                with self.subTest(dp=dp, operator=one.spec.name):
                    self.assertTrue(torch.equal(one.gradient, other.gradient))
                    self.assertGreater(float(one.gradient.abs().sum()), 0)


def around(events, turn, operator, backward):
    """The events of one operator's pass: from after the one before it to its own last computation."""
    half = events[events.index(turn):] if backward else events[: events.index(turn)]
    last = half.index(("BW" if backward else "F", operator))
    before = ("BW", operator + 1) if backward else ("F", operator - 1)
    return half[half.index(before) + 1 : last + 1]


class HostMemory(unittest.TestCase):
    def test_what_is_fetched_is_a_copy_and_what_leaves_waits_for_its_sum(self):
        copies, host = HostCopies(CPU), torch.arange(6.0)
        fetched = copies.fetch(host, CPU)
        fetched.wait()
        self.assertTrue(torch.equal(fetched.tensor, host))
        self.assertNotEqual(fetched.tensor.data_ptr(), host.data_ptr())
        onto = torch.zeros(6)
        self.assertIs(copies.fetch(host, CPU, onto).tensor, onto)
        self.assertTrue(torch.equal(onto, host))

        waited = []

        class Work:
            def wait(self):
                waited.append(True)

        leaving = copies.leave(host, Work())
        self.assertEqual(waited, [])
        self.assertTrue(torch.equal(leaving.get(), host))
        self.assertEqual(waited, [True])
        with copies.behind_fetches():
            pass
        self.assertEqual(host_memory.host_tensor((2, 3), CPU).shape, (2, 3))


if __name__ == "__main__":
    unittest.main()
