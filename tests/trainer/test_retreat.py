"""A plan that fails in the middle of a step, or spoils what is learnt, is left by all ranks; the job goes on."""
import os
import unittest

from fake_agent import FakeAgent
from harness import SINGLE, STEADY, JobTest, plan

from trimtab import LearningGuard

MIB = 1 << 20
WIDE = (STEADY.replace("vocabulary = 64", "vocabulary = 30000").replace("hidden = 32", "hidden = 16")
        .replace("sequence = 16", "sequence = 64"))
# Fits wherever a rank fits at all.
SMALL = plan([([0], 0, 4, [[0, 4]]), ([1], 4, 8, [[4, 8]])], 1)
ADOPTED = plan([([0], 0, 3, [[0, 3]]), ([1], 3, 8, [[3, 8]])], 2)
CANDIDATE = plan([([0], 0, 5, [[0, 5]]), ([1], 5, 8, [[5, 8]])], 2)
# The head's logits of a whole batch: 88 MiB, several times over. Its peak is some 225 MiB above SMALL's, ADOPTED's 35 to 65,
# by how its heap falls into pieces.
HUNGRY = plan([([0], 0, 4, []), ([1], 4, 8, [])], 12)
LIMIT = []  # Found out once.


class Retreat(JobTest):
    def setUp(self):
        super().setUp()
        self.config = self.write("wide.toml", WIDE)
        self.agent = FakeAgent(os.path.join(self.folder, "agent.sock"))
        self.addCleanup(self.agent.close)
        self.snapshots = os.path.join(self.folder, "snapshots")

    def limit(self):
        """Room for SMALL, which has been trained here, and for ADOPTED; not for HUNGRY."""
        self.fresh = True
        if not LIMIT:
            LIMIT.append(100 * MIB + max(max(line["peak_bytes"]) for line in self.train(SMALL, 2, 2).values()))
        return str(LIMIT[0])

    def start_job(self, *extra, **environment):
        run = self.start(SMALL, 2, 5000, *extra, environment={"TRIMTAB_SOCKET": self.agent.path, **environment})
        self.agent.wait_for_step(2)
        return run

    def commit(self, epoch, document):
        step = self.agent.propose(epoch, document, 2)
        self.agent.send({"type": "plan_commit", "epoch": epoch, "step": step + 1})

    def failed(self, epoch, reason):
        """What the ranks say of the plan of `epoch`, which all of them give up for this reason."""
        failed = self.agent.wait_from_all("plan_failed", 2, epoch=epoch)
        self.assertEqual({message["reason"] for _, message in failed}, {reason})
        self.assertEqual(len({message["step"] for _, message in failed}), 1, "all ranks go on at the same step")
        return failed[0][1]

    def stop(self, run):
        """Some steps later; returns the log, every step of which was trained as by one process."""
        step = max(message["step"] for _, message in self.agent.of("step", epoch=0)) + 3
        self.agent.wait(lambda: any(m["step"] >= step for _, m in self.agent.of("step", epoch=0)), "steps of epoch 0")
        self.agent.send({"type": "stop", "step": step + 2})
        run.wait()
        self.assertEqual(run.codes, [0, 0], run.errors)
        log = run.log()
        self.assertEqual({line["epoch"] for line in log.values()}, {0})
        self.assert_same_training(self.train(SINGLE, 1, max(log) + 1), log, 1e-5)
        return log

    def test_memory_that_runs_out_in_a_step_costs_a_plan_and_no_step(self):
        run = self.start_job("--snapshots", self.snapshots, "--memory-limit", self.limit())
        pids = {message["pid"] for _, message in self.agent.of("hello")}
        self.commit(3, HUNGRY)
        failure = self.failed(3, "out_of_memory")
        self.assertRegex(failure["message"], "rank 1 ran out of memory in the middle of a step: .*can't allocate memory")
        active = self.agent.of("plan_active", epoch=3)[0][1]
        self.assertEqual(failure["step"], active["step"], "the change's snapshot is where they go on")
        self.assertEqual({message["pid"] for _, message in self.agent.of("hello")}, pids, "the same processes")
        # An epoch that failed never comes back; a later one is a plan like any other.
        self.agent.send({"type": "plan_propose", "epoch": 3, "plan": SMALL})
        self.agent.change_plan(4, ADOPTED, 2)
        self.agent.wait_for_step(failure["step"] + 8)
        self.assertEqual(len(self.agent.of("plan_ack", epoch=3)), 2, "answered once by each rank")
        self.agent.send({"type": "stop", "step": 0})
        run.wait()
        self.assertEqual(run.codes, [0, 0], run.errors)
        # What a running job adopts must start from fresh under the same limit, too, and trains the same.
        fresh = self.train(ADOPTED, 2, max(run.log()) + 1, "--memory-limit", self.limit())
        self.assert_same_training(fresh, run.log(), 1e-5)

    def test_without_a_plan_to_return_to_the_job_ends_with_the_reason(self):
        run = self.start(HUNGRY, 2, 5, "--snapshots", self.snapshots, "--memory-limit", self.limit()).wait()
        self.assertEqual(run.codes, [3, 3])
        self.assertRegex(run.errors[1], "rank 1: out of memory: .*; choose a plan that keeps less")
        self.assertIn("rank 0: rank 1 is gone (out of memory", run.errors[0])

    def test_a_plan_that_spoils_what_is_learnt_is_left_with_its_updates(self):
        run = self.start_job("--snapshots", self.snapshots, "--snapshot-every", "1", TRIMTAB_TEST_SPOIL="1:1")
        self.commit(1, SMALL)
        failure = self.failed(1, "loss")
        self.assertIn("became nan under the new plan", failure["message"])
        self.stop(run)

    def test_a_plan_that_came_back_is_left_for_the_one_before_it_and_not_for_the_candidate(self):
        run = self.start_job("--snapshots", self.snapshots, TRIMTAB_TEST_SPOIL="1:3")
        self.agent.change_plan(1, ADOPTED, 2)
        self.agent.change_plan(2, CANDIDATE, 2)
        self.commit(3, ADOPTED)
        step = self.failed(3, "loss")["step"] + 3
        self.agent.wait(lambda: any(m["step"] >= step for _, m in self.agent.of("step", epoch=0)), "steps of epoch 0")
        self.agent.send({"type": "stop", "step": step + 2})
        run.wait()
        self.assertEqual(run.codes, [0, 0], run.errors)

    def test_an_adopted_plan_is_watched_anew_however_long_its_trial_was(self):
        run = self.start_job("--snapshots", self.snapshots, TRIMTAB_TEST_SPOIL="1:1:adopted")
        active = self.agent.change_plan(1, ADOPTED, 2)
        self.agent.wait_for_step(active[0][1]["step"] + LearningGuard.WATCHED + 1)
        self.assertEqual(self.agent.of("plan_failed"), [])
        self.agent.send({"type": "plan_propose", "epoch": 1, "incumbent": True, "plan": ADOPTED})
        failure = self.failed(1, "loss")
        self.assertIn("became nan under the new plan", failure["message"])
        step = failure["step"] + 3
        self.agent.wait(lambda: any(m["step"] >= step for _, m in self.agent.of("step", epoch=0)), "steps of epoch 0")
        self.agent.send({"type": "stop", "step": step + 2})
        run.wait()
        self.assertEqual(run.codes, [0, 0], run.errors)

    def test_without_snapshots_the_plan_is_left_and_what_is_spoilt_ends_the_job(self):
        run = self.start_job(TRIMTAB_TEST_SPOIL="1:1")
        self.commit(1, SMALL)
        self.assertIn("its updates stay", self.failed(1, "loss")["message"])
        run.wait()
        self.assertEqual(run.codes, [3, 3], run.errors)
        self.assertIn("the loss became nan", run.errors[0])


if __name__ == "__main__":
    unittest.main()
