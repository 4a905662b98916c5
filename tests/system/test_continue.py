"""A job that trains on after its tuning: tune returns, the daemons stay, and a killed one comes back beside the others."""

import json
import unittest

from installation import Installation, kill_hard, rank_processes, wait_until


class TrainsOn(unittest.TestCase):
    def status(self, trimtab):
        return json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)["jobs"][0]

    def check_trains_on(self, trimtab, ranks):
        self.assertEqual(rank_processes(trimtab.directory), ranks)
        before = self.status(trimtab)
        self.assertTrue(before["active"])
        wait_until(lambda: self.status(trimtab)["step"] > before["step"], "another step", 30)
        wait_until(lambda: self.status(trimtab)["phase"] == "training", "training", 30)

    def test_tune_returns_while_the_job_trains_on_and_up_repairs_what_is_killed(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB", AFTER="continue")
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=240), 0, trimtab.tune_log())
            self.assertIn("trains on", trimtab.tune_log())
            self.assertIn(f"trimtab down --state {trimtab.state}", trimtab.tune_log())
            report = trimtab.report()
            self.assertEqual(report["phase"], "training")
            self.assertTrue(report["timeline"]["initial"])
            ranks = rank_processes(trimtab.directory)
            self.assertEqual(len(ranks), 2)
            self.check_trains_on(trimtab, ranks)
            for daemon, other in (("coordinator", "agent"), ("agent", "coordinator")):
                with self.subTest(killed=daemon):
                    self.kill_and_repair(trimtab, daemon, other)
                    self.check_trains_on(trimtab, ranks)
            trimtab.run("down", "--state", trimtab.state)
            wait_until(lambda: not rank_processes(trimtab.directory), "the ranks' end", 30)

    def kill_and_repair(self, trimtab, daemon, other):
        before = trimtab.processes()
        kill_hard(before[daemon])
        said = trimtab.run("up", "--state", trimtab.state).stdout
        after = trimtab.processes()
        self.assertIn(f"started again: {daemon}", said)
        self.assertNotEqual(after[daemon], before[daemon])
        self.assertEqual(after[other], before[other])
        self.assertEqual(after["port"], before["port"])


if __name__ == "__main__":
    unittest.main()
