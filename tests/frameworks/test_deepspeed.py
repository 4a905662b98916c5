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
        return watched

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

    def leaves_out(self, *arguments):
        """fp16's first steps are left out. Each is one of the training, with the loss that nobody has scaled."""
        watched = self.train(*arguments, "--dtype", "fp16", dtype="float16")
        self.assertGreater(watched.log()[-1]["skipped"], 2)

    @long
    def test_fp16_without_zero(self):
        """Its optimizer steps as the engine is made, which is no step of the training, and leaves none out at this scale."""
        self.train("--stage", "0", "--dtype", "fp16", dtype="float16")

    @long
    def test_fp16_and_zero_2(self):
        self.leaves_out("--stage", "2")

    @long
    def test_fp16_and_zero_3(self):
        self.leaves_out("--stage", "3")

    @long
    def test_fp16_and_the_backward_pass_of_a_script(self):
        self.leaves_out("--stage", "2", "--own-backward")


if __name__ == "__main__":
    unittest.main()
