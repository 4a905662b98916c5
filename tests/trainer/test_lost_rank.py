"""A rank dies: nobody hangs, everybody says who it was, and no state is lost."""
import json
import os
import signal
import time
import unittest

from fake_agent import FakeAgent
from harness import EVEN_RECOMPUTED, SINGLE, UNEVEN, JobTest, plan

PROMPTLY_S = 10
SWITCH_STEP, SNAPSHOT_EVERY = 30, 12
MORE_STEPS = 4


class LostRank(JobTest):
    def assert_survivors_name(self, run, dead, codes_of_survivors=(3,)):
        for rank, (code, errors) in enumerate(zip(run.codes, run.errors)):
            if rank == dead:
                self.assertEqual(code, -signal.SIGKILL)
            else:
                self.assertIn(code, codes_of_survivors, errors)
                self.assertIn(f"rank {rank}: rank {dead} is gone", errors)

    def test_a_rank_killed_in_a_step_ends_the_job_and_is_named_by_all(self):
        three = plan([([0], 0, 3, []), ([1], 3, 6, []), ([2], 6, 8, [])], 2)
        for dead in (0, 1):
            with self.subTest(dead=dead):
                run = self.start(three, 3, 5000, environment={"TRIMTAB_TEST_KILL": f"{dead}:5:step"})
                run.process(dead).wait(60)
                begin = time.monotonic()
                run.wait(PROMPTLY_S)
                self.assertLess(time.monotonic() - begin, PROMPTLY_S)
                self.assert_survivors_name(run, dead)

    def test_a_rank_does_what_it_is_ordered_while_it_runs_and_every_rank_has_a_log(self):
        orders = os.path.join(self.folder, "orders")
        run = self.start(EVEN_RECOMPUTED, 2, 100000, "--log-ranks", environment={"TRIMTAB_TEST_ORDERS": orders})
        logs = [os.path.join(self.folder, f"run1.log.{rank}") for rank in range(2)]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not all(os.path.exists(log) and os.path.getsize(log) for log in logs):
            time.sleep(0.02)
        self.write("orders.new", f"1 step {int(signal.SIGKILL)}")
        os.rename(orders + ".new", orders)
        run.wait()
        self.assert_survivors_name(run, 1)
        self.assertFalse(os.path.exists(orders))
        lines = []
        for log in logs:
            with open(log, encoding="utf-8") as file:
                lines.append([json.loads(line) for line in file])
        both = min(map(len, lines))
        self.assertGreater(both, 0)
        self.assertEqual([(line["step"], line["plan"], line["samples"]) for line in lines[0][:both]],
                         [(line["step"], line["plan"], line["samples"]) for line in lines[1][:both]])

    def test_a_rank_killed_in_a_switch_loses_no_state(self):
        wanted = self.train(SINGLE, 1, SWITCH_STEP + MORE_STEPS)
        for phase in ("before_snapshot", "after_snapshot", "moving", "moved"):
            with self.subTest(phase):
                self.switch_and_kill(phase, wanted)

    def switch_and_kill(self, phase, wanted):
        agent = FakeAgent(os.path.join(self.folder, f"{phase}.sock"))
        self.addCleanup(agent.close)
        snapshots = os.path.join(self.folder, f"snapshots-{phase}")
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--snapshots", snapshots, "--snapshot-every", str(SNAPSHOT_EVERY), environment={
            "TRIMTAB_SOCKET": agent.path, "TRIMTAB_TEST_KILL": f"1:{SWITCH_STEP}:{phase}"})
        agent.wait_from_all("hello", 2)
        agent.propose(1, UNEVEN, 2)
        agent.send({"type": "plan_commit", "epoch": 1, "step": SWITCH_STEP})
        run.wait()
        self.assert_survivors_name(run, 1)
        before = run.log()
        resumed = self.start(SINGLE, 1, SWITCH_STEP + MORE_STEPS, "--snapshots", snapshots).wait()
        self.assertEqual(resumed.codes, [0], resumed.errors)
        after = resumed.log()
        # Steps since the periodic snapshot are repeated where the switch's own was not whole yet.
        self.assertEqual(min(after), 2 * SNAPSHOT_EVERY if phase == "before_snapshot" else SWITCH_STEP)
        self.assert_same_training(wanted, {**before, **after})

    def test_sigterm_ends_after_the_step_with_a_snapshot(self):
        snapshots = os.path.join(self.folder, "snapshots")
        agent = FakeAgent(os.path.join(self.folder, "agent.sock"))
        self.addCleanup(agent.close)
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--snapshots", snapshots, "--snapshot-every", "1000",
                         environment={"TRIMTAB_SOCKET": agent.path})
        agent.wait_for_step(2)
        run.process(1).send_signal(signal.SIGTERM)
        run.wait()
        self.assertEqual(run.codes, [0, 0], run.errors)
        self.assertEqual({rank for rank, _ in agent.of("bye")}, {0, 1})
        self.assertEqual(len(os.listdir(snapshots)), 1)


if __name__ == "__main__":
    unittest.main()
