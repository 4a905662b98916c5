"""The pure parts: who does what in which order, who sends what to whom, what a change holds at once."""
import itertools
import random
import unittest

from harness import SEED

import layout_change
import plan as plans
from layout_change import messages, samples_of
from repetition import LONG_NS, Precision, precise_enough, repeat
from schedule import BACKWARD, FORWARD, actions, order_of


class Schedule(unittest.TestCase):
    def test_no_number_of_stages_and_microbatches_deadlocks(self):
        for stages in range(1, 7):
            for microbatches in range(1, 10):
                for kind in ("1f1b", "gpipe"):
                    with self.subTest(stages=stages, microbatches=microbatches, kind=kind):
                        self.run_to_the_end([order_of(plans.Schedule(kind), s, stages, stages, microbatches)
                                             for s in range(stages)])

    def test_stages_that_go_round_do_not_deadlock_and_each_does_every_microbatch(self):
        for seats, rounds, groups in itertools.product(range(2, 6), range(2, 5), range(1, 4)):
            stages, microbatches = seats * rounds, seats * groups
            orders = [order_of(plans.Schedule("interleaved"), seat, seats, stages, microbatches) for seat in range(seats)]
            with self.subTest(seats=seats, stages=stages, microbatches=microbatches):
                self.run_to_the_end(orders)
                for stage in range(stages):
                    for wanted in (FORWARD, BACKWARD):
                        found = [m for kind, of, m in orders[stage % seats] if (kind, of) == (wanted, stage)]
                        self.assertEqual(found, list(range(microbatches)))

    def test_interleaved_stages_take_turns_in_groups_of_microbatches(self):
        """Narayanan et al. 2021, figure 4, of two ranks: two forwards of each stage, and so on; backwards the last first."""
        order = order_of(plans.Schedule("interleaved"), 1, 2, 4, 4)
        self.assertEqual([(stage, m) for kind, stage, m in order if kind == FORWARD],
                         [(1, 0), (1, 1), (3, 0), (3, 1), (1, 2), (1, 3), (3, 2), (3, 3)])
        self.assertEqual([(stage, m) for kind, stage, m in order if kind == BACKWARD],
                         [(3, 0), (3, 1), (1, 0), (1, 1), (3, 2), (3, 3), (1, 2), (1, 3)])
        self.assertEqual([kind for kind, *_ in order[:4]], [FORWARD] * 3 + [BACKWARD])
        first = order_of(plans.Schedule("interleaved"), 0, 2, 4, 4)
        self.assertEqual([kind for kind, *_ in first].index(BACKWARD), 5)

    def run_to_the_end(self, orders):
        """Each seat waits only for what it receives; sends never wait. `orders`: (kind, stage, microbatch[, parts])."""
        done = set()
        positions = [0] * len(orders)
        stages = 1 + max(stage for order in orders for _, stage, *_ in order)
        progress = True
        while progress:
            progress = False
            for seat, order in enumerate(orders):
                while positions[seat] < len(order):
                    kind, stage, *which = order[positions[seat]]
                    neighbour = stage - 1 if kind == FORWARD else stage + 1
                    # What is passed in halves comes in halves or, from where it was whole, at once.
                    if 0 <= neighbour < stages and not self.came(done, neighbour, kind, *which):
                        break
                    done.add((stage, kind, *which))
                    positions[seat] += 1
                    progress = True
        self.assertEqual(positions, [len(order) for order in orders])

    @staticmethod
    def came(done, stage, kind, microbatch, parts=(0,)):
        passed = {part for (by, what, number, *rest) in done if (by, what, number) == (stage, kind, microbatch)
                  for part in (rest[0] if rest else (0,))}
        return passed >= set(parts)

    def test_a_stage_never_holds_more_forwards_than_stages_follow_it(self):
        order = order_of(plans.Schedule(), 1, 4, 4, 9)
        held = peak = 0
        for kind, *_ in order:
            held += 1 if kind == FORWARD else -1
            peak = max(peak, held)
        self.assertEqual((held, peak), (0, 3))
        self.assertEqual([m for kind, _, m in order if kind == BACKWARD], list(range(9)))


class Slices(unittest.TestCase):
    """Sliced microbatches: what is sent apart is received apart, in the same order."""

    def test_neighbours_pass_the_same_parts_and_none_deadlocks(self):
        for stages in range(1, 5):
            for microbatches in range(1, 7):
                for sliced in range(microbatches + 1):
                    schedule = plans.Schedule(sliced_microbatches=sliced)
                    orders = [actions(schedule, stage, stages, stages, microbatches) for stage in range(stages)]
                    with self.subTest(stages=stages, microbatches=microbatches, sliced=sliced):
                        self.assert_each_part_once(orders, schedule, microbatches)
                        Schedule().run_to_the_end([[(action.kind, action.stage, action.microbatch, parts) for action in order
                                                    for parts in action.batches] for order in orders])

    def assert_each_part_once(self, orders, schedule, microbatches):
        wanted = [(m, part) for m in range(microbatches) for part in range(schedule.parts_of(m))]
        for order in orders:
            for kind in (FORWARD, BACKWARD):
                found = [(action.microbatch, part) for action in order if action.kind == kind
                         for parts in action.batches for part in parts]
                self.assertEqual(found, wanted)

    def test_only_the_warm_up_is_taken_in_halves(self):
        order = actions(plans.Schedule(sliced_microbatches=3), 2, 4, 4, 6)
        forward = [(action.microbatch, action.batches) for action in order if action.kind == FORWARD]
        self.assertEqual(forward[:5], [(0, ((0,),)), (0, ((1,),)), (1, ((0,),)), (1, ((1,),)), (2, ((0, 1),))])


def segment(devices, dp, consecutive=True, begin=0, end=1):
    return plans.Segment(tuple(devices), begin, end, dp, len(devices) // dp, consecutive, "none", 1)


class Samples(unittest.TestCase):
    """Who sends which samples where the layout of samples changes."""

    def test_every_rank_gets_what_it_lacks_exactly_once(self):
        generator = random.Random(SEED)
        for _ in range(200):
            have, want = self.random_segments(generator)
            samples = have.dp * want.dp * generator.randint(1, 2)
            found = {rank: [] for rank in want.devices}
            for source, destination, begin, end in messages(have, want, samples):
                low, high = samples_of(have, source, samples)
                self.assertTrue(low <= begin < end <= high, f"seed {SEED}: a sender without the samples")
                found[destination].append((begin, end))
            for rank, pieces in found.items():
                own = samples_of(have, rank, samples) if rank in have.devices else (0, 0)
                low, high = samples_of(want, rank, samples)
                wanted = [sample for sample in range(low, high) if not own[0] <= sample < own[1]]
                got = sorted(sample for begin, end in pieces for sample in range(begin, end))
                self.assertEqual(got, wanted, f"seed {SEED}: {have} {want}")

    def random_segments(self, generator):
        """Of one stage, or of two."""
        count = generator.choice([1, 2, 4, 6, 8])
        here = list(range(count))
        there = here if generator.random() < 0.5 else list(range(count, count + generator.choice([1, 2, 4, 6])))
        return self.random_segment(generator, here), self.random_segment(generator, there)

    @staticmethod
    def random_segment(generator, devices):
        dp = generator.choice([d for d in range(1, len(devices) + 1) if len(devices) % d == 0])
        return segment(generator.sample(devices, len(devices)), dp, generator.random() < 0.5)

    def test_a_part_of_sequences_comes_from_who_has_that_very_part(self):
        for cp, tp in ((2, 1), (2, 2), (4, 1)):
            def replicas(first, count):
                devices = tuple(range(first, first + count * cp * tp))
                return plans.Segment(devices, 0, 1, count * cp, tp, True, "none", 1, cp=cp)

            have, want = replicas(0, 2), replicas(16, 4)
            for source, destination, begin, end in messages(have, want, 8):
                self.assertEqual(source % (cp * tp), (destination - 16) % (cp * tp))
                self.assertEqual((begin, end), samples_of(want, destination, 8))
            self.assertEqual(len(messages(have, want, 8)), len(want.devices))
            self.assertEqual(layout_change.groups_of(have, replicas(0, 2)), [])

    def test_fewer_and_wider_replicas_gather(self):
        before, after = segment(range(8), 4), segment(range(8), 2)
        self.assertEqual(layout_change.gather_groups(before, after), [(0, 2), (1, 3), (4, 6), (5, 7)])
        self.assertEqual(layout_change.groups_of(after, before), [], "every rank has what it needs")

    def test_what_no_gather_gives_is_exchanged(self):
        before, after = segment(range(4), 2, True), segment(range(4), 2, False)
        self.assertIsNone(layout_change.gather_groups(before, after))
        self.assertEqual(layout_change.groups_of(before, after), [(0, 1, 2, 3)])


class OneRank:
    def barrier(self):
        pass

    def minimum(self, value):
        return value


class Repetitions(unittest.TestCase):
    def test_repetitions_end_when_the_interval_is_narrow(self):
        self.assertFalse(precise_enough([100], 0.03))
        self.assertFalse(precise_enough([90, 110, 100], 0.03))
        self.assertTrue(precise_enough([100, 101, 99, 100, 100], 0.03))

    def repetitions_of(self, each_ns):
        """How often something is measured that takes so long and scatters widely."""
        now, values = [0], itertools.cycle([50, 150])

        def measure():
            now[0] += each_ns
            return (next(values),)

        (column,) = repeat(measure, Precision(0.03, 5, 60), OneRank(), lambda: now[0])
        return len(column)

    def test_what_takes_long_is_repeated_no_more_than_it_must(self):
        self.assertEqual(self.repetitions_of(LONG_NS // 1000), 60)
        self.assertEqual(self.repetitions_of(LONG_NS // 10), 11)
        self.assertEqual(self.repetitions_of(2 * LONG_NS), 5)


if __name__ == "__main__":
    unittest.main()
