"""Parts never add up to more than the time, ranges stay nested, and a step ends with the right optimizer."""
import os
import random
import unittest

import watched_job  # noqa: F401  The client is found from here on.

from trimtab.watch.account import (ASIDE, BACKWARD, COMMUNICATION, DATA, FORWARD, NAMES, OPTIMIZER, RECOMPUTE, Account)
from trimtab.watch.identity import Identity, identity
from trimtab.watch.optimizers import Ends

SEED = int(os.environ.get("TRIMTAB_TEST_SEED", "7"))


class Ranges:
    def __init__(self):
        self.open = []
        self.closed = []

    def push(self, name, payload=0):
        self.open.append(name)

    def pop(self):
        self.closed.append(self.open.pop())


class Optimizer:
    pass


class Parts(unittest.TestCase):
    def setUp(self):
        self.now = 0
        self.ranges = Ranges()
        self.account = Account(self.ranges, lambda: self.now)

    def spend(self, ns, part=None, name=None):
        """Time that passes, in a part where one is named."""
        depth = self.account.enter(part, name) if part is not None else 0
        self.now += ns
        self.account.leave(depth)

    def taken(self):
        wall, ns = self.account.take(self.account.now())
        self.assertEqual(sum(ns), wall)
        return {name: value for name, value in zip(NAMES, ns) if value}

    def test_each_moment_counts_for_the_innermost_part(self):
        depth = self.account.enter(BACKWARD)
        self.now += 5
        self.spend(3, COMMUNICATION)
        self.now += 2
        self.account.leave(depth)
        self.spend(4)
        self.assertEqual(self.taken(), {"backward": 7, "communication": 3, "other": 4})
        self.assertEqual(self.taken(), {})

    def test_what_lies_before_a_backward_pass_is_the_loss(self):
        self.spend(1)
        self.spend(2, DATA)
        self.spend(4)
        self.spend(8, FORWARD)
        self.spend(16)
        self.spend(32, BACKWARD)
        self.assertEqual(self.taken(), {"other": 5, "data": 2, "forward": 24, "backward": 32})

    def test_what_lies_between_asides_is_one(self):
        for _ in range(3):
            self.spend(1, ASIDE)
            self.spend(10)
        self.assertEqual(self.taken(), {"aside": 23, "other": 10})

    def test_an_evaluation_is_aside_with_its_batches_and_what_it_gathers(self):
        self.spend(1, OPTIMIZER)
        self.spend(2)  # The training's log.
        for _ in range(3):
            self.spend(10, DATA)
            self.spend(20)
            self.account.evaluates()
            self.spend(30, ASIDE)
            self.spend(40)
            self.spend(50, COMMUNICATION)
        self.spend(4)
        self.spend(8, DATA)
        self.spend(16, FORWARD)
        self.spend(32, COMMUNICATION)
        aside = 3 * (10 + 20 + 30 + 40 + 50) - 20
        self.assertEqual(self.taken(), {"optimizer": 1, "other": 2 + 20 + 4, "data": 8, "forward": 16, "communication": 32,
                                        "aside": aside})

    def test_what_a_step_has_told_is_not_taken_back(self):
        self.spend(1, DATA)
        self.assertEqual(self.taken(), {"data": 1})
        self.spend(2, DATA)
        self.account.evaluates()
        self.spend(4, ASIDE)
        self.assertEqual(self.taken(), {"aside": 6})

    def test_a_checkpoint_leaves_the_batch_before_it(self):
        self.spend(2, DATA)
        self.spend(4, ASIDE)
        self.spend(8, COMMUNICATION)
        self.assertEqual(self.taken(), {"data": 2, "aside": 4, "communication": 8})

    def test_what_an_exception_left_open_ends_with_the_next_part(self):
        self.account.enter(FORWARD, "op/a/forward")
        self.now += 5
        self.spend(2, DATA)
        self.assertEqual((self.ranges.open, self.account.parts), ([], []))
        self.assertEqual(self.taken(), {"forward": 5, "data": 2})

    def test_an_outer_end_closes_what_is_open_inside(self):
        depth = self.account.enter(BACKWARD, "op/a/backward")
        self.account.enter(RECOMPUTE, "op/a/recompute")
        self.account.push("op/a/recompute/inner")
        self.account.leave(depth)
        self.account.leave(depth)
        self.assertEqual((self.ranges.open, self.account.parts), ([], []))

    def test_a_step_that_ends_inside_a_part_closes_ranges_and_goes_on(self):
        depth = self.account.enter(OPTIMIZER, "optimizer")
        self.now += 5
        self.assertEqual(self.taken(), {"optimizer": 5})
        self.account.close_ranges()
        self.assertEqual(self.ranges.open, [])
        self.now += 3
        self.account.leave(depth)
        self.assertEqual((self.taken(), self.ranges.closed), ({"optimizer": 3}, ["optimizer"]))

    def test_any_order_of_calls_keeps_the_sum_and_the_nesting(self):
        print_seed = f"seed {SEED}"
        chance = random.Random(SEED)
        depths = []
        for _ in range(3000):
            self.now += chance.randrange(5)
            if chance.random() < 0.5 or not depths:
                depths.append(self.account.enter(chance.randrange(1, len(NAMES)), chance.choice((None, "range"))))
            elif chance.random() < 0.2:
                self.taken()
            else:
                self.account.leave(depths.pop(chance.randrange(len(depths))))
            self.assertLessEqual(len(self.account.parts), len(depths), print_seed)
        self.account.leave(1)
        self.assertEqual(self.ranges.open, [], print_seed)


class StepEnds(unittest.TestCase):
    def ended(self, order):
        """Which of these steps end a step of the training."""
        ends, optimizers = Ends(), {}
        self.kept = optimizers
        return [ends.stepped(optimizers.setdefault(name, Optimizer())) for name in order]

    def test_of_one_each_step(self):
        self.assertEqual(self.ended("aaa"), [True] * 3)

    def test_of_two_in_turn_the_second(self):
        self.assertEqual(self.ended("ababab")[2:], [False, True] * 2)

    def test_of_five_and_one_the_one(self):
        self.assertEqual(self.ended("aaaaab" * 3)[6:], ([False] * 5 + [True]) * 2)

    def test_of_one_that_steps_no_more_the_other_takes_its_place(self):
        ended = self.ended("ab" * 10 + "a" * 20)
        self.assertEqual(ended[-10:], [True] * 10)


class Who(unittest.TestCase):
    def who(self, **environment):
        return identity(environment, {})

    def test_launchers_in_their_order(self):
        slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0"}
        self.assertEqual(self.who(**slurm), Identity(3, 4, 1, 1))
        self.assertEqual(self.who(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", **slurm), Identity(1, 2, 1, 1))
        self.assertEqual(self.who(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="3"), Identity(2, 3, None, 1))
        self.assertEqual(self.who(PMIX_RANK="1", PMI_SIZE="2", MPI_LOCALRANKID="1"), Identity(1, 2, 1, 1))
        self.assertEqual(self.who(), Identity(0, 1, None, 1))

    def test_a_shell_inside_an_allocation_and_nonsense_are_no_rank(self):
        self.assertEqual(self.who(SLURM_PROCID="0", SLURM_NTASKS="4"), Identity())
        for values in (("x", "2"), ("2", "2"), ("-1", "2"), ("1", "")):
            self.assertEqual(self.who(RANK=values[0], WORLD_SIZE=values[1]), Identity(), values)

    def test_a_restart_by_torchrun_is_a_launch(self):
        self.assertEqual(self.who(TORCHELASTIC_RESTART_COUNT="2").launch, 3)


if __name__ == "__main__":
    unittest.main()
