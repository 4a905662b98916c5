"""A plain DeepSpeed script on two Gloo ranks."""
import unittest

from framework_job import TORCHRUN, FrameworkTest, long


class DeepSpeed(FrameworkTest):
    def train(self, *arguments, dtype):
        alone, watched = self.both("deepspeed_zero.py", *TORCHRUN, arguments=arguments, DS_ACCELERATOR="cpu")
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        for rank in (0, 1):
            self.assert_losses_told(watched, watched.losses(rank), rank)
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(30)))
            self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(16, 2)})
            for name in ("data", "forward", "backward", "optimizer", "communication"):
                self.assertGreater(steps[-1]["parts"][f"{name}_ns"], 0, name)
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["parameters"], facts["layers"], facts["batch_size"], facts["accumulation"]),
                         ("deepspeed", 3422218, 3, 8, 2))
        self.assertEqual(facts["dtype"], dtype)
        self.assertNotIn("compiled", facts)

    @long
    def test_pipeline(self):
        """Only the last stage knows the loss."""
        alone, watched = self.both("deepspeed_pipeline.py", *TORCHRUN, DS_ACCELERATOR="cpu")
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        self.assert_losses_told(watched, watched.losses(1), rank=1)
        for rank in (0, 1):
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(30)))
            self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(32, 4)})
            self.assertEqual("loss" in steps[-1], rank == 1)
            for name in ("data", "forward", "backward", "optimizer", "communication"):
                self.assertGreater(steps[-1]["parts"][f"{name}_ns"], 0, name)
            facts = watched.job.facts(rank)
            self.assertEqual((facts["framework"], facts["stages"], facts.get("stage", 0), facts["batch_size"]), ("deepspeed", 2, rank, 8))

    @long
    def test_without_zero(self):
        self.train("--stage", "0", dtype="float32")

    @long
    def test_zero_1(self):
        self.train("--stage", "1", dtype="float32")

    def test_zero_2(self):
        self.train("--stage", "2", "--dtype", "bf16", dtype="bfloat16")

    @long
    def test_zero_3(self):
        self.train("--stage", "3", "--dtype", "bf16", dtype="bfloat16")


if __name__ == "__main__":
    unittest.main()
