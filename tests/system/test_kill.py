"""kill -9 of each process at a random moment of a tuning run: the run ends well and nothing acknowledged is lost.

A run kills one of the three, which its seed draws. TRIMTAB_TEST_LONG=1 kills each in turn, a tuning run each."""

import os
import random
import sqlite3
import subprocess
import time
import unittest

from installation import Installation, kill_hard, rank_processes, wait_until


def acknowledged_batches(trimtab):
    """(origin, number) of every batch in the coordinator's database."""
    found = set()
    for database in (trimtab.state / "coordinator").rglob("costs.db"):
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            found |= set(connection.execute("select o.name, b.number from batches b join origins o on o.id = b.origin"))
            for name, folded in connection.execute("select name, folded from origins"):
                found |= {(name, number) for number in range(1, folded + 1)}
    return found


LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
SEED = int(os.environ.get("TRIMTAB_SEED", time.time_ns() % 2**32))
DRAWN = random.Random(SEED).choice(("coordinator", "agent", "rank"))


def kills(process):
    return unittest.skipUnless(LONG or process == DRAWN, f"seed {SEED} draws the {DRAWN}; TRIMTAB_TEST_LONG=1 kills each")


class KillHard(unittest.TestCase):
    def setUp(self):
        self.seed = SEED
        self.random = random.Random(self.seed)
        self.addCleanup(lambda: print(f"seed {self.seed}"))

    def tune_with_a_kill(self, kill):
        """`kill` answers False when the run was over before it could do anything; then an earlier moment is drawn."""
        for latest in (6.0, 3.0, 1.5, 0.8):
            if self.tuned_with_a_kill(kill, self.random.uniform(0.5, latest)):
                return
        self.fail(f"every run was over before the kill, seed {self.seed}")

    def tuned_with_a_kill(self, kill, moment):
        with Installation() as trimtab:
            trimtab.up()
            job = trimtab.write_job(MEMORY="1GiB", plain=["benchmark"])
            tune = trimtab.start_tune(job)
            wait_until(lambda: rank_processes(trimtab.directory), "the job's start", 120)
            # The moment is random on purpose; the seed is printed.
            time.sleep(moment)
            before = acknowledged_batches(trimtab)
            killed = kill(trimtab, tune)
            try:
                self.assertEqual(tune.wait(timeout=240), 0, f"seed {self.seed}: {trimtab.tune_log()}")
            except subprocess.TimeoutExpired:
                self.fail(f"tuning did not end, seed {self.seed}, kill after {moment:.2f} s:\n{trimtab.all_logs()}")
            self.assertLessEqual(before, acknowledged_batches(trimtab), f"seed {self.seed}")
            self.assertTrue(trimtab.report()["loss"]["same_samples"], f"seed {self.seed}: {trimtab.report()['loss']}")
            return killed

    def kill_daemon(self, daemon):
        def kill(trimtab, tune):
            under_way = tune.poll() is None
            trimtab.restart_hard(daemon)
            return under_way

        self.tune_with_a_kill(kill)

    @kills("coordinator")
    def test_the_coordinator_is_killed_and_goes_on_where_it_was(self):
        self.kill_daemon("coordinator")

    @kills("agent")
    def test_the_agent_is_killed_and_adopts_the_ranks_again(self):
        self.kill_daemon("agent")

    @kills("rank")
    def test_a_rank_is_killed_and_the_job_resumes_from_its_snapshot(self):
        def kill_a_rank(trimtab, tune):
            # Between two launches there is none for a moment.
            wait_until(lambda: rank_processes(trimtab.directory) or tune.poll() is not None, "a rank, or the end", 60)
            pids = rank_processes(trimtab.directory)
            if pids:
                kill_hard(self.random.choice(pids))
            return bool(pids)

        self.tune_with_a_kill(kill_a_rank)


if __name__ == "__main__":
    unittest.main()
