"""A kill switch thrown in the middle of a trial whose coordinator is dead: the ranks go back to the incumbent by themselves."""

import json
import os
import signal
import sqlite3
import time
import unittest

from installation import PLAIN, Installation, kill_hard, rank_processes, replace_in, wait_until


class KillSwitch(unittest.TestCase):
    def epochs(self, trimtab):
        """What the agent knows of its ranks: the epoch that each one runs."""
        with sqlite3.connect(f"file:{trimtab.state}/agents/n0/agent.db?mode=ro", uri=True) as database:
            rows = database.execute("SELECT epoch FROM ranks WHERE ended = 0 AND pid > 0 ORDER BY rank").fetchall()
        return [row[0] for row in rows]

    def common_epoch(self, trimtab):
        epochs = self.epochs(trimtab)
        return epochs[0] if len(epochs) == 2 and epochs[0] == epochs[1] else None

    def plan(self, trimtab, epoch):
        return json.loads((trimtab.state / f"agents/n0/jobs/tiny/plan-{epoch}.json").read_text())

    def job(self, trimtab):
        return json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)["jobs"][0]

    def kill_coordinator_in_a_trial(self, trimtab, incumbent):
        """Ranks run another plan than the incumbent when it dies. Returns that plan's epoch."""
        def tries():
            epoch = self.common_epoch(trimtab)
            if epoch is None or epoch == incumbent:
                return None
            return epoch if self.plan(trimtab, epoch) != self.plan(trimtab, incumbent) else None

        coordinator = trimtab.processes()["coordinator"]
        epoch = wait_until(tries, "a trial's plan", 180)
        kill_hard(coordinator)
        return epoch

    def test_the_ranks_leave_a_trials_plan_without_a_coordinator(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB", AFTER="continue", plain=PLAIN)
            replace_in(job, {"measure_steps = 6": "measure_steps = 50"})  # a trial that lasts until it is seen
            tune = trimtab.start_tune(job)
            wait_until(lambda: len(rank_processes(trimtab.directory)) == 2, "the start of both ranks", 120)
            ranks = rank_processes(trimtab.directory)
            launched = wait_until(lambda: self.common_epoch(trimtab), "the ranks' hello", 60)
            tried = self.kill_coordinator_in_a_trial(trimtab, launched)
            os.killpg(tune.pid, signal.SIGKILL)
            tune.wait(timeout=30)
            said = json.loads(trimtab.run("kill-switch", "throw", "--state", trimtab.state, "--json").stdout)
            self.assertEqual([one["thrown"] for one in said["switches"]], [True])
            wait_until(lambda: self.common_epoch(trimtab) not in (None, tried), "the way back", 30)
            self.assertEqual(self.plan(trimtab, self.common_epoch(trimtab)), self.plan(trimtab, launched))
            self.assertEqual(rank_processes(trimtab.directory), ranks)

            trimtab.run("up", "--state", trimtab.state)
            held = lambda: self.job(trimtab)["held_by"]
            wait_until(lambda: "kill switch of node n0" in held(), "the coordinator's knowing", 60)
            before = self.job(trimtab)
            time.sleep(3)
            after = self.job(trimtab)
            self.assertGreater(after["step"], before["step"])
            self.assertEqual(after["trials"], before["trials"])
            status = trimtab.run("status", "--state", trimtab.state).stdout
            self.assertIn("kill switch thrown", status)

            trimtab.run("kill-switch", "release", "--state", trimtab.state)
            wait_until(lambda: not held(), "the release", 30)
            wait_until(lambda: self.job(trimtab)["phase"] == "training", "the end of tuning", 180)
            trimtab.run("job", "freeze", "--job", "tiny", "--why", "night", "--state", trimtab.state)
            self.assertEqual(held(), "frozen")
            entries = json.loads(trimtab.run("audit", "--json", "--state", trimtab.state).stdout)["entries"]
            self.assertEqual([one["entry"] for one in entries], list(range(1, len(entries) + 1)))
            words = [(one["who"], one["what"]) for one in entries]
            self.assertIn(("node n0", "throw the kill switch"), words)
            self.assertIn(("node n0", "release the kill switch"), words)
            self.assertEqual([one["why"] for one in entries if one["what"] == "freeze the job"], ["night"])
            self.assertTrue(any(who == "coordinator" and what.startswith("commit epoch") for who, what in words), words)
            trimtab.run("down", "--state", trimtab.state)
            wait_until(lambda: not rank_processes(trimtab.directory), "the ranks' end", 30)


if __name__ == "__main__":
    unittest.main()
