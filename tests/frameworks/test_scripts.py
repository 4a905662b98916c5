"""Scripts of a stranger's kind, unmodified: their steps are told as they log them, and they compute bit by bit what they do unwatched."""
import unittest

from framework_job import TORCHRUN, FrameworkTest, long


class Scripts(FrameworkTest):
    @long  # Its card is checked in every run, and accelerate's loop, which is DDP, bit by bit.
    def test_plain_ddp_under_torchrun(self):
        alone, watched = self.both("plain_ddp.py", *TORCHRUN)
        self.assertEqual(sorted(watched.job.ranks), [0, 1])  # The launcher is none.
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2)
        for rank in (0, 1):
            self.assert_losses_told(watched, watched.losses(rank), rank)
            step = watched.job.steps(rank)[-1]
            self.assertEqual((step["count"], step["microbatches"]), (8, 1))
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["batch_size"], facts["accumulation"]), ("ddp", 8, 1))
        self.assertEqual(watched.job.frames("hello")[0]["world_size"], 2)

    def test_fsdp2_under_torchrun(self):
        alone, watched = self.both("fsdp2.py", *TORCHRUN)
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        for rank in (0, 1):
            self.assert_losses_told(watched, watched.losses(rank), rank)
        step = watched.job.steps()[-1]
        self.assertGreater(step["parts"]["recompute_ns"], 0)
        self.assertGreater(step["parts"]["communication_ns"], 0)
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["layers"], facts["checkpointed_layers"]), ("fsdp2", 4, 4))

    @long
    def test_fsdp1_with_accumulation(self):
        alone, watched = self.both("fsdp1.py", *TORCHRUN)
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        for rank in (0, 1):
            self.assertEqual([entry["norm"] for entry in alone.log(rank)], [entry["norm"] for entry in watched.log(rank)])
            self.assert_losses_told(watched, watched.losses(rank), rank)
            self.assertEqual({(step["count"], step["microbatches"]) for step in watched.job.steps(rank)}, {(16, 2)})
            parts = watched.job.steps(rank)[-1]["parts"]
            for name in ("data", "forward", "backward", "optimizer", "communication"):
                self.assertGreater(parts[f"{name}_ns"], 0, name)
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["layers"], facts["batch_size"], facts["accumulation"], facts["sequence_length"]),
                         ("fsdp", 3, 8, 2, 64))
        self.assertEqual(facts["parameters"], 660608)  # Of the whole model, of which a rank holds half.

    def check_pipeline(self, kind):
        """Only the last stage knows the loss, and only the ends know the batch."""
        alone, watched = self.both("pipelining.py", *TORCHRUN, arguments=(kind,))
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        self.assert_losses_told(watched, watched.losses(1), rank=1)
        for rank in (0, 1):
            steps = watched.job.steps(rank)
            self.assertEqual([step["step"] for step in steps], list(range(20)))
            self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(32, 4)})
            facts = watched.job.facts(rank)
            schedule = {"gpipe": "ScheduleGPipe", "1f1b": "Schedule1F1B", "interleaved": "ScheduleInterleaved1F1B"}[kind]
            told = (facts["schedule"], facts["stages"], facts["stage"], facts.get("virtual_stages"), facts["batch_size"], facts["accumulation"])
            self.assertEqual(told, (schedule, 2, rank, 2 if kind == "interleaved" else None, 8, 4))

    @long
    def test_pipelining_interleaved(self):
        self.check_pipeline("interleaved")

    @long
    def test_pipelining_of_single_stages(self):
        self.check_pipeline("gpipe")

    @long
    def test_pipelining_1f1b(self):
        self.check_pipeline("1f1b")


class Transformers(FrameworkTest):
    def test_trainer(self):
        alone, watched = self.both("hf_trainer.py")
        self.assertEqual(alone.bytes_of("model/model.safetensors"), watched.bytes_of("model/model.safetensors"))
        own = {"loss", "eval_loss", "grad_norm", "step"}
        histories = [[{name: entry[name] for name in own & set(entry)} for entry in run.document("history.json")]
                     for run in (alone, watched)]
        self.assertEqual(*histories)
        self.assert_steps_near_own_log(watched)
        steps = watched.job.steps()
        self.assertEqual([step["step"] for step in steps], list(range(40)))
        for entry in histories[0]:
            if "loss" in entry:  # Of four steps each.
                told = [step["loss"] for step in steps[entry["step"] - 4 : entry["step"]]]
                self.assertAlmostEqual(sum(told) / 4, entry["loss"], places=3)
        self.assertEqual({(step["count"], step["tokens"], step["microbatches"]) for step in steps}, {(8, 512, 2)})
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["batch_size"], facts["accumulation"], facts["sequence_length"], facts["layers"]),
                         ("transformers", 4, 2, 64, 3))
        evaluated = [step for step in steps if step["step"] % 8 == 0 and step["step"]]
        rest = [step for step in steps if step["step"] % 4 != 0]
        for step in evaluated:
            self.assertGreater(step["parts"]["aside_ns"], 10 * max(rest_step["parts"]["aside_ns"] for rest_step in rest))


class Accelerate(FrameworkTest):
    def test_loop_with_accumulation(self):
        alone, watched = self.both("accelerated.py", *TORCHRUN)
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2)
        for rank in (0, 1):
            self.assert_losses_told(watched, watched.losses(rank), rank)
            self.assertEqual({(step["count"], step["microbatches"]) for step in watched.job.steps(rank)}, {(32, 4)})
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["batch_size"], facts["accumulation"]), ("accelerate", 8, 4))
        self.assertEqual(facts["reduced_microbatches"], 1)

    @long
    def test_accelerate_launch(self):
        watched = self.launch("accelerated.py", "-m", "accelerate.commands.launch", "--cpu", watched=True)
        self.assertEqual(sorted(watched.job.ranks), [0])
        self.assert_steps_near_own_log(watched)
        self.assert_losses_told(watched, watched.losses())


class Lightning(FrameworkTest):
    def test_fit(self):
        alone, watched = self.both("lightning_fit.py")
        self.assert_steps_near_own_log(watched)
        self.assert_same_outputs(alone, watched)
        self.assert_losses_told(watched, watched.losses())
        steps = watched.job.steps()
        self.assertEqual([step["step"] for step in steps], list(range(80)))
        self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(16, 2)})
        facts = watched.job.facts()
        self.assertEqual((facts["framework"], facts["batch_size"], facts["accumulation"], facts["dtype"]), ("lightning", 8, 2, "float32"))
        for step in steps:
            parts = step["parts"]
            self.assertGreater(min(parts["forward_ns"], parts["backward_ns"], parts["optimizer_ns"]), 0)
        evaluated = [step["parts"]["aside_ns"] for step in steps if step["step"] % 10 == 0 and step["step"]]
        self.assertGreater(min(evaluated), 10 * sorted(step["parts"]["aside_ns"] for step in steps)[len(steps) // 2])

    @long
    def test_manual_optimization_with_the_older_package(self):
        """Each batch is two optimizers' steps, and one step of the training."""
        job = self.launch("lightning_manual.py", watched=True).job
        steps = job.steps()[2:]  # The first batch is told as two: which optimizer steps last is not known there.
        self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(8, 2)})
        self.assertEqual(len(steps), 11)
        self.assertEqual(job.facts()["framework"], "lightning")


class Compiled(FrameworkTest):
    """As many graph breaks, compilations and recompilations as without the hooks."""

    def assert_same_counters(self, alone, watched, ranks=1):
        for rank in range(ranks):
            counters = alone.document(f"counters-{rank}.json")
            self.assertGreater(counters["compilations"], 0)
            self.assertEqual(watched.document(f"counters-{rank}.json"), counters)
        return counters

    def test_fsdp2_of_compiled_blocks(self):
        alone, watched = self.both("fsdp2.py", *TORCHRUN, counted=True, arguments=("--compile", "aot_eager"))
        self.assert_same_counters(alone, watched, ranks=2)
        self.assert_steps_near_own_log(watched, ranks=2)
        self.assert_same_outputs(alone, watched, ranks=2, files=())
        self.assertEqual((watched.job.facts()["framework"], watched.job.facts()["compiled"]), ("fsdp2", True))

    def test_compiled_model(self):
        alone, watched = self.both("compiled.py", counted=True, TORCHINDUCTOR_COMPILE_THREADS="1")  # No pool of processes.
        counters = self.assert_same_counters(alone, watched)
        self.assertGreater(sum(counters["graph_break"].values()), 0)
        self.assertGreater(counters["compilations"], 2)  # Two parts, and again for the shorter batch.
        self.assert_steps_near_own_log(watched)
        self.assert_same_outputs(alone, watched)
        self.assert_losses_told(watched, watched.losses())
        self.assertTrue(watched.job.facts()["compiled"])


if __name__ == "__main__":
    unittest.main()
