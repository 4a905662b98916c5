"""kill -9 of each process at a random moment of a tuning run: the run ends well and nothing acknowledged is lost."""

import os
import random
import sqlite3
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


class KillHard(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("TRIMTAB_SEED", time.time_ns() % 2**32))
        self.random = random.Random(self.seed)
        self.addCleanup(lambda: print(f"seed {self.seed}"))

    def tune_with_a_kill(self, kill):
        with Installation() as trimtab:
            trimtab.up()
            job = trimtab.write_job(MEMORY="1GiB")
            tune = trimtab.start_tune(job)
            wait_until(lambda: rank_processes(trimtab.directory), "the job's start", 120)
            # The moment is random on purpose; the seed is printed.
            time.sleep(self.random.uniform(0.5, 6.0))
            before = acknowledged_batches(trimtab)
            kill(trimtab)
            self.assertEqual(tune.wait(timeout=240), 0, f"seed {self.seed}: {trimtab.tune_log()}")
            self.assertLessEqual(before, acknowledged_batches(trimtab), f"seed {self.seed}")
            self.assertTrue(trimtab.report()["loss"]["same_samples"], f"seed {self.seed}: {trimtab.report()['loss']}")

    def test_the_coordinator_is_killed_and_goes_on_where_it_was(self):
        self.tune_with_a_kill(lambda trimtab: trimtab.restart_hard("coordinator"))

    def test_the_agent_is_killed_and_adopts_the_ranks_again(self):
        self.tune_with_a_kill(lambda trimtab: trimtab.restart_hard("agent"))

    def test_a_rank_is_killed_and_the_job_resumes_from_its_snapshot(self):
        def kill_a_rank(trimtab):
            pids = rank_processes(trimtab.directory)
            self.assertTrue(pids, f"no rank to kill, seed {self.seed}: {trimtab.tune_log()}")
            kill_hard(self.random.choice(pids))

        self.tune_with_a_kill(kill_a_rank)


if __name__ == "__main__":
    unittest.main()
