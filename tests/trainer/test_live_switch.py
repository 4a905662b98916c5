"""Changing the plan of a running job: what stays the same, and what happens when it goes wrong."""
import os
import unittest

from fake_agent import FakeAgent
from harness import (EVEN_RECOMPUTED, MODEL, REPLICATED, REVERSED, SINGLE, UNEVEN, JobTest, plan)

MIB = 1 << 20


class LiveSwitch(JobTest):
    def setUp(self):
        super().setUp()
        self.agent = FakeAgent(os.path.join(self.folder, "agent.sock"))
        self.addCleanup(self.agent.close)
        self.snapshots = os.path.join(self.folder, "snapshots")
        self.environment = {"TRIMTAB_SOCKET": self.agent.path}

    def last_step(self):
        return max(message["step"] for _, message in self.agent.of("step"))

    def stop(self, run):
        """Ask for an end a few steps ahead; returns the run's log."""
        step = self.last_step() + 5
        self.agent.send({"type": "stop", "step": step})
        run.wait()
        self.assertEqual(set(run.codes), {0}, run.errors)
        self.assertGreaterEqual(max(run.log()), step)
        return run.log()

    def test_four_changes_half_way_leave_the_loss_curve_as_it_was(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--snapshots", self.snapshots, environment=self.environment)
        self.agent.wait_for_step(10)
        for epoch, document in enumerate((UNEVEN, REPLICATED, REVERSED, EVEN_RECOMPUTED), 1):
            active = self.agent.change_plan(epoch, document, 2)
            self.assertEqual(len({message["step"] for _, message in active}), 1, "all ranks change at the same step")
            for _, message in active:
                phases = [message[name] for name in ("save_ns", "move_ns", "groups_ns", "build_ns")]
                self.assertGreater(min(phases), 0)
                self.assertLessEqual(sum(phases), message["switch_ns"])
        found = self.stop(run)
        self.assertEqual({line["epoch"] for line in found.values()}, {0, 1, 2, 3, 4})
        self.assert_same_training(self.train(SINGLE, 1, max(found) + 1), found)
        self.assertEqual(len(os.listdir(self.snapshots)), 2, "the last two snapshots are kept")

    def test_memory_switches_come_and_go_and_a_snapshot_has_what_was_on_the_host(self):
        every = [[0, 8]]
        host = {"offload_optimizer": True, "partition_parameters": every}
        lazy = {**host, "lazy_prefetch": every, "economical_forward": every, "economical_backward": every}
        released, on_host = ({**REPLICATED, "stages": [{"devices": [0, 1], "segments": [
            {"operators": [0, 8], "dp": 2, "sharded": "gradients", "recompute": [[2, 6]],
             "switches": {**switches, "offload_hidden": [[2, 5]]}}]}]} for switches in (host, lazy))
        alone = {**EVEN_RECOMPUTED, "stages": [{**stage, "segments": [{**stage["segments"][0], "switches": {
            "offload_optimizer": True, **{name: [stage["segments"][0]["operators"]] for name in lazy if name != "offload_optimizer"}}}]}
            for stage in EVEN_RECOMPUTED["stages"]]}
        run = self.start(REPLICATED, 2, 5000, "--snapshots", self.snapshots, environment=self.environment)
        self.agent.wait_for_step(3)
        plans = (on_host, released, alone, EVEN_RECOMPUTED, on_host)
        for epoch, document in enumerate(plans, 1):
            self.agent.change_plan(epoch, document, 2)
        self.agent.wait_for_step(self.last_step() + 2)
        found = self.stop(run)
        self.assertEqual({line["epoch"] for line in found.values()}, set(range(len(plans) + 1)))
        steps = max(found) + 4
        again = self.train(REPLICATED, 2, steps, "--snapshots", self.snapshots)
        self.assertGreater(min(again), 3, "it began with the snapshot of a plan with switches")
        self.assert_same_training(self.train(SINGLE, 1, steps), {**found, **again})

    def test_steps_in_which_memory_is_touched_for_the_first_time_are_told(self):
        config = self.write("wide.toml", MODEL.replace("vocabulary = 64", "vocabulary = 20000")
                            .replace("hidden = 32", "hidden = 128").replace("learning_rate = 0.01", "learning_rate = 0.001"))
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--snapshots", self.snapshots, config=config,
                         environment=self.environment)
        self.agent.wait_for_step(6)
        active = self.agent.change_plan(1, REPLICATED, 2)
        first = active[0][1]["step"]
        self.agent.wait_for_step(first + 40)
        self.stop(run)
        for rank in (0, 1):
            told = {message["step"]: message.get("preparations", 0)
                    for of, message in self.agent.of("step") if of == rank}
            self.assertGreater(told[first], told[first - 1], "the change gave all that was free back")
            self.assertEqual(sorted(told.values()), [told[step] for step in sorted(told)], "it never falls")
            grew = [step for step in range(first, first + 41) if told[step] > told[step - 1]]
            self.assertLess(len(grew), 20, "most steps are alike")

    def test_a_commit_that_only_one_rank_hears_changes_nothing(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, environment=self.environment)
        self.agent.wait_for_step(3)
        step = self.agent.propose(1, UNEVEN, 2)
        self.agent.send({"type": "plan_commit", "epoch": 1, "step": step + 1}, ranks={0})
        self.agent.wait_for_step(step + 15)
        self.assertEqual({message["epoch"] for _, message in self.agent.of("step")}, {0})
        self.assertEqual(self.agent.of("plan_active"), [])
        self.agent.send({"type": "plan_commit", "epoch": 1, "step": step + 1}, ranks={1})
        active = self.agent.wait_from_all("plan_active", 2, epoch=1)
        self.assertEqual(len({message["step"] for _, message in active}), 1)
        self.stop(run)

    def test_a_cancelled_commit_does_not_hold_up_the_next_plan(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, environment=self.environment)
        self.agent.wait_for_step(3)
        step = self.agent.propose(1, UNEVEN, 2)
        self.agent.send({"type": "plan_commit", "epoch": 1, "step": step + 1}, ranks={1})
        self.agent.send({"type": "plan_cancel", "epoch": 1}, ranks={0})
        self.agent.change_plan(2, REPLICATED, 2)  # Rank 1 still holds epoch 1.
        self.assertEqual(self.agent.of("plan_active", epoch=1), [])
        self.stop(run)

    def test_a_plan_that_is_not_understood_is_refused_and_training_goes_on(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, environment=self.environment)
        self.agent.wait_for_step(2)
        bad = plan([([0], 0, 4, []), ([1], 4, 8, [])], 1)
        bad["stages"][1]["segments"][0]["tp"] = 2
        self.agent.send({"type": "plan_propose", "epoch": 1, "plan": bad})
        for _, message in self.agent.wait_from_all("plan_refuse", 2, epoch=1):
            self.assertIn("plan.stages[1].segments[0].tp", message["message"])
        self.stop(run)

    def test_without_a_snapshot_nothing_moves_and_training_goes_on(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--snapshots", self.snapshots, environment=self.environment)
        self.agent.wait_for_step(2)
        self.write("snapshots", "a file where the folder should be")
        step = self.agent.propose(1, UNEVEN, 2)
        self.agent.send({"type": "plan_commit", "epoch": 1, "step": step + 1})
        failed = self.agent.wait_from_all("plan_failed", 2, epoch=1)
        self.assertEqual({message["reason"] for _, message in failed}, {"snapshot"})
        self.agent.change_plan(2, EVEN_RECOMPUTED, 2)  # Back to the plan that they never left.
        log = self.stop(run)
        self.assertEqual({line["epoch"] for line in log.values()}, {0, 2})
        self.assert_same_training(self.train(SINGLE, 1, max(log) + 1), log)

    def test_memory_is_checked_before_a_change_and_enforced_after_it(self):
        self.fresh = True
        config = self.write("wide.toml", MODEL.replace("vocabulary = 64", "vocabulary = 70000")
                            .replace("hidden = 32", "hidden = 128").replace("sequence = 16", "sequence = 8")
                            .replace("learning_rate = 0.01", "learning_rate = 0.001"))
        first = plan([([0], 0, 4, [[0, 4]]), ([1], 4, 8, [[4, 8]])], 1)
        used = max(max(line["peak_bytes"]) for line in self.train(first, 2, 10, config=config).values())
        # More than an allocator adds by and by; less than the other stage's states, or the largest microbatch's logits.
        limit = used + 50 * MIB
        run = self.start(first, 2, 5000, "--memory-limit", str(limit), "--snapshots", self.snapshots, config=config,
                         environment=self.environment)
        self.agent.wait_for_step(1)
        self.agent.send({"type": "plan_propose", "epoch": 1, "plan": REPLICATED})
        # One refusal is enough for nobody to switch; the rank that holds less may have room.
        self.agent.wait(lambda: self.agent.of("plan_refuse", epoch=1), "a refusal")
        self.assertEqual({message["reason"] for _, message in self.agent.of("plan_refuse", epoch=1)}, {"memory"})
        hungry = plan([([0], 0, 4, []), ([1], 4, 8, [])], 12)
        self.agent.change_plan(2, hungry, 2)
        failed = self.agent.wait_from_all("plan_failed", 2, epoch=2)
        self.assertEqual({message["reason"] for _, message in failed}, {"out_of_memory"})
        self.agent.wait_for_step(max(message["step"] for _, message in failed) + 2)
        log = self.stop(run)
        self.assertEqual(log[max(log)]["epoch"], 0, "the job went back to the plan before")
        self.fresh = False
        # How many steps these are is a matter of the machine's speed, and rounding adds up: 1.5e-4 after 138.
        self.assert_same_training(self.train(SINGLE, 1, max(log) + 1, config=config), log, tolerance=1e-3)

    def test_an_initial_plan_over_the_limit_ends_the_job_with_the_reason(self):
        run = self.start(SINGLE, 1, 5, "--memory-limit", str(64 * MIB)).wait()
        self.assertEqual(run.codes, [3])
        self.assertRegex(run.errors[0], r"rank 0 needs \d+ MiB, the memory limit is 64 MiB")


if __name__ == "__main__":
    unittest.main()
