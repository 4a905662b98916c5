"""The pure parts: who does what in which order, who sends what to whom, what a change holds at once."""
import random
import unittest

from harness import EVEN_RECOMPUTED, MODEL, OPERATORS, REPLICATED, SEED, plan

import tomllib

import config
import plan as plans
from model import build, operator_specs, parameter_count
from operator_state import held_bytes
from repetition import precise_enough
from schedule import BACKWARD, FORWARD, one_forward_one_backward
from switch import moves, peak_state_bytes
from transfers import overlaps

CONFIG = config.from_document(tomllib.loads(MODEL))


def parsed(document, world_size):
    return plans.parse(document, CONFIG, OPERATORS, world_size)


class Schedule(unittest.TestCase):
    def test_no_number_of_stages_and_microbatches_deadlocks(self):
        for stages in range(1, 7):
            for microbatches in range(1, 10):
                with self.subTest(stages=stages, microbatches=microbatches):
                    self.run_to_the_end([one_forward_one_backward(s, stages, microbatches) for s in range(stages)])

    def run_to_the_end(self, orders):
        """Each stage waits only for what it receives; sends never wait."""
        done = set()
        positions = [0] * len(orders)
        progress = True
        while progress:
            progress = False
            for stage, order in enumerate(orders):
                while positions[stage] < len(order):
                    kind, microbatch = order[positions[stage]]
                    neighbour = stage - 1 if kind == FORWARD else stage + 1
                    if 0 <= neighbour < len(orders) and (neighbour, kind, microbatch) not in done:
                        break
                    done.add((stage, kind, microbatch))
                    positions[stage] += 1
                    progress = True
        self.assertEqual(positions, [len(order) for order in orders])

    def test_a_stage_never_holds_more_forwards_than_stages_follow_it(self):
        order = one_forward_one_backward(1, 4, 9)
        held = peak = 0
        for kind, _ in order:
            held += 1 if kind == FORWARD else -1
            peak = max(peak, held)
        self.assertEqual((held, peak), (0, 3))
        self.assertEqual([m for kind, m in order if kind == BACKWARD], list(range(9)))


class Transfers(unittest.TestCase):
    def test_every_sample_is_exchanged_exactly_once(self):
        generator = random.Random(SEED)
        for _ in range(50):
            left, right = generator.randint(1, 4), generator.randint(1, 4)
            microbatch = left * right * generator.randint(1, 2)
            here = plans.Stage(0, tuple(range(left)), 0, 1, frozenset())
            there = plans.Stage(1, tuple(range(left, left + right)), 1, 2, frozenset())
            pairs = {(rank, peer, begin + rank * microbatch // left, end + rank * microbatch // left)
                     for rank in here.devices for peer, begin, end in overlaps(here, rank, there, microbatch)}
            mirrored = {(peer, rank, begin + (rank - left) * microbatch // right, end + (rank - left) * microbatch // right)
                        for rank in there.devices for peer, begin, end in overlaps(there, rank, here, microbatch)}
            self.assertEqual(pairs, mirrored, f"seed {SEED}")
            self.assertEqual(sum(end - begin for _, _, begin, end in pairs), microbatch, f"seed {SEED}")


class Moves(unittest.TestCase):
    def test_only_new_holders_receive_and_only_old_ones_send(self):
        old, new = parsed(EVEN_RECOMPUTED, 2), parsed(REPLICATED, 2)
        received = {move.operator: (move.source, move.destinations) for move in moves(old, new, OPERATORS)}
        self.assertEqual(received, {**{i: (0, (1,)) for i in range(4)}, **{i: (1, (0,)) for i in range(4, 8)}})
        self.assertTrue(all(not move.destinations for move in moves(new, new, OPERATORS)))

    def test_the_peak_of_a_change_counts_what_is_held_together(self):
        old = parsed(EVEN_RECOMPUTED, 2)
        swapped = parsed(plan([([1], 0, 4, []), ([0], 4, 8, [])], 1), 2)
        specs = operator_specs(CONFIG)
        peak, settled = peak_state_bytes(old, swapped, 0, specs, CONFIG)
        self.assertEqual(settled, sum(held_bytes(spec, CONFIG) for spec in specs[4:]))
        self.assertGreaterEqual(peak, settled)
        stays, _ = peak_state_bytes(old, old, 0, specs, CONFIG)
        self.assertEqual(stays, sum(held_bytes(spec, CONFIG) for spec in specs[:4]))

    def test_parameter_counts_are_those_of_the_modules(self):
        for spec in operator_specs(CONFIG):
            count = sum(parameter.numel() for parameter in build(spec, CONFIG).parameters())
            self.assertEqual(parameter_count(spec, CONFIG), count, spec.name)


class Precision(unittest.TestCase):
    def test_repetitions_end_when_the_interval_is_narrow(self):
        self.assertFalse(precise_enough([100], 0.03))
        self.assertFalse(precise_enough([90, 110, 100], 0.03))
        self.assertTrue(precise_enough([100, 101, 99, 100, 100], 0.03))


if __name__ == "__main__":
    unittest.main()
