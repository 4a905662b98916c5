"""The plan decides how a step is computed, never what is learnt."""
import unittest

from harness import (EVEN_RECOMPUTED, GLOBAL_BATCH, MODEL, REPLICATED, REVERSED, SINGLE, UNEVEN, JobTest, plan)

STEPS = 12
PLANS = {
    "even, all recomputed, microbatch 1": (2, EVEN_RECOMPUTED),
    "uneven, partly recomputed": (2, UNEVEN),
    "data parallel, two operators recomputed": (2, REPLICATED),
    "stages in reverse rank order": (2, REVERSED),
    "two replicas in the last stage only": (3, plan([([0], 0, 5, []), ([1, 2], 5, 8, [[5, 6]])], 4)),
    "slices that overlap unevenly, eager": (
        4, plan([([0, 1, 2], 0, 3, [[0, 1]]), ([3], 3, 8, [])], 6, transfers="eager")),
    "sub-batches that have nothing to hide": (2, plan([([0], 0, 4, []), ([1], 4, 8, [])], 6, sub_batches=2)),
    "two replicas of two stages, one microbatch": (4, plan([([2, 0], 0, 4, []), ([1, 3], 4, 8, [])], GLOBAL_BATCH)),
    "three stages, cut inside layers": (3, plan([([0], 0, 2, []), ([1], 2, 7, [[3, 6]]), ([2], 7, 8, [])], 2)),
}


class LossParity(JobTest):
    def test_every_plan_trains_like_a_single_process(self):
        wanted = self.train(SINGLE, 1, STEPS)
        losses = [line["loss"] for line in wanted.values()]
        self.assertLess(losses[-1], losses[0], "the stream can be learnt")
        for name, (world_size, document) in PLANS.items():
            with self.subTest(name):
                self.assert_same_training(wanted, self.train(document, world_size, STEPS))

    def test_dropout_masks_belong_to_samples_not_to_plans(self):
        config = self.write("dropout.toml", MODEL + "dropout = 0.2\n")
        wanted = self.train(SINGLE, 1, 6, config=config)
        self.assertNotEqual(wanted[5]["loss"], self.train(SINGLE, 1, 6)[5]["loss"])
        self.assert_same_training(wanted, self.train(UNEVEN, 2, 6, config=config))


if __name__ == "__main__":
    unittest.main()
