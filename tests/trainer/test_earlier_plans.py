"""What a failing plan is left for: the plan that it took the place of, not a candidate that ran in between."""
import os
import sys
import unittest
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "trainer"))
from earlier_plans import KEPT, EarlierPlans  # noqa: E402

A, B, C = (SimpleNamespace(digest=name) for name in "abc")


def run_through(*plans):
    """The EarlierPlans of the last plan; the n-th ran as epoch n."""
    earlier = EarlierPlans()
    for epoch, (present, wanted) in enumerate(zip(plans, plans[1:])):
        earlier = earlier.after(present, epoch, wanted)
    return earlier


class EarlierPlansTest(unittest.TestCase):
    def test_a_candidate_is_left_for_the_plan_before_it(self):
        self.assertEqual(run_through(A, B).latest, (A, 0))

    def test_a_plan_that_came_back_is_not_left_for_the_candidate(self):
        self.assertEqual(run_through(A, B, C, B).latest, (A, 0))
        self.assertEqual(run_through(A, C, A).latest, (None, 0))

    def test_blocks_in_turn_end_where_they_began(self):
        self.assertEqual(run_through(A, B, C, B, C, B).latest, (A, 0))
        self.assertEqual(run_through(A, B, C, B, C).latest, (B, 3))

    def test_the_same_plan_under_a_new_epoch_is_returned_to_under_the_old_one(self):
        self.assertEqual(run_through(A, A).latest, (A, 0))
        self.assertEqual(run_through(A, B, B, C, B).latest, (A, 0))

    def test_after_a_return_the_plan_before_that_is_next(self):
        self.assertEqual(run_through(A, B, C).without_latest().latest, (A, 0))

    def test_a_job_of_many_plans_keeps_the_latest(self):
        many = [SimpleNamespace(digest=str(number)) for number in range(3 * KEPT)]
        earlier, left = run_through(*many), 0
        while earlier.latest[0] is not None:
            earlier, left = earlier.without_latest(), left + 1
        self.assertEqual(left, KEPT)


if __name__ == "__main__":
    unittest.main()
