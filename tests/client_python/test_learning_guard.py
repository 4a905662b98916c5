"""The guard notices what a plan does to training, and what it lets pass is as rare as it says."""
import math
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

from trimtab import LearningGuard

SEED = int(os.environ.get("TRIMTAB_TEST_SEED", "7"))


def noise(generator, step, level=5.0, slope=0.0):
    """A step's (loss, gradient norm)."""
    return level - slope * step + generator.gauss(0, 0.05), 1.5 * math.exp(generator.gauss(0, 0.2))


class Guard(unittest.TestCase):
    def setUp(self):
        self.generator = random.Random(f"{SEED} guard")
        self.guard = LearningGuard()

    def train(self, steps, change=lambda loss, norm: (loss, norm), slope=0.002):
        """The first reason to leave, and after how many steps."""
        for step in range(steps):
            why = self.guard.judge(*change(*noise(self.generator, step, slope=slope)))
            if why:
                return why, step + 1
        return None, steps

    def test_training_that_goes_on_as_before_is_left_alone(self):
        self.train(30)
        self.guard.changed()
        self.assertTrue(self.guard.watching)
        self.assertEqual(self.train(100), (None, 100))
        self.assertFalse(self.guard.watching)

    def test_one_number_that_is_none_is_enough_without_any_history(self):
        self.guard.changed()
        self.assertIn("loss became nan", self.guard.judge(float("nan"), 1.0))
        self.assertIn("gradient norm became inf", self.guard.judge(1.0, float("inf")))

    def test_a_rise_of_the_loss_is_noticed_after_as_many_steps_as_it_says(self):
        self.train(30)
        self.guard.changed()
        why, steps = self.train(20, lambda loss, norm: (loss + 0.6, norm))
        self.assertEqual(steps, LearningGuard.CONSECUTIVE)
        self.assertIn("the loss of 4 steps in a row under the new plan was above", why)

    def test_gradients_that_are_summed_wrongly_are_noticed(self):
        for factor, word in ((8.0, "above"), (0.125, "below")):
            with self.subTest(factor):
                self.guard = LearningGuard()
                self.train(30)
                self.guard.changed()
                why, _ = self.train(20, lambda loss, norm, by=factor: (loss, norm * by))
                self.assertRegex(why, f"the gradient norm of 4 steps in a row under the new plan was {word}")

    def test_single_outliers_pass(self):
        self.train(30)
        self.guard.changed()
        for step in range(20):
            loss, norm = noise(self.generator, step)
            outlier = step % 4 == 0
            self.assertIsNone(self.guard.judge(loss + 3 * outlier, norm * (1 + 20 * outlier)), f"seed {SEED}")

    def test_a_loss_that_hardly_moves_may_move_by_rounding(self):
        for step in range(30):
            self.guard.judge(2.0 + 1e-3 * (step % 3), 1.0)
        self.guard.changed()
        for step in range(20):
            self.assertIsNone(self.guard.judge(2.0 + 1e-3 * (step % 3) + 1e-5, 1.0))

    def test_what_one_plan_did_is_history_for_the_next(self):
        self.train(30)
        self.guard.changed()
        self.train(5)
        self.guard.changed()
        self.assertIsNotNone(self.train(20, lambda loss, norm: (loss + 1.0, norm))[0])

    def test_an_adopted_plan_is_watched_anew_beside_the_steps_before_it_began(self):
        self.train(30)
        self.guard.changed()
        for step in range(LearningGuard.WATCHED + 4):
            loss, norm = noise(self.generator, step)
            self.assertIsNone(self.guard.judge(loss + 3 * (step % 4 == 0), norm))  # Outliers of the trial's own.
        self.assertFalse(self.guard.watching)
        self.guard.adopted()
        why, steps = self.train(LearningGuard.WATCHED, lambda loss, norm: (loss + 0.6, norm))
        self.assertEqual(steps, LearningGuard.CONSECUTIVE)
        self.assertIn("the loss of 4 steps in a row under the new plan was above", why)

    def test_false_alarms_are_as_rare_as_stated(self):
        """Without a trend, the worst case: no step is more likely high than another."""
        self.assertLess(LearningGuard.false_alarm_rate(), 0.011)
        self.assertLess(LearningGuard.false_alarm_rate(LearningGuard.HISTORY), 0.0026)
        alarms, changes = 0, 2000
        for _ in range(changes):
            self.guard = LearningGuard()
            self.train(LearningGuard.HISTORY, slope=0.0)
            self.guard.changed()
            alarms += self.train(LearningGuard.WATCHED, slope=0.0)[0] is not None
        self.assertLessEqual(alarms / changes, 0.0026, f"seed {SEED}")


if __name__ == "__main__":
    unittest.main()
