"""The whole loop with real processes: a real PyTorch job is measured, searched, trialled and tuned."""

import json
import sqlite3
import unittest

from installation import Installation


class TuneEndToEnd(unittest.TestCase):
    def test_a_job_is_tuned_and_a_second_run_reuses_the_costs(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB")
            first = trimtab.start_tune(job, "--keep-up")
            self.assertEqual(first.wait(timeout=240), 0, trimtab.tune_log())
            report = trimtab.report()
            self.check_report(report)
            self.assertGreater(report["profiled"]["costs_measured"], 10)
            self.check_databases(trimtab)
            again = trimtab.start_tune(job)
            self.assertEqual(again.wait(timeout=240), 0, trimtab.tune_log())
            second = trimtab.report()
            self.assertEqual(second["profiled"]["costs_measured"], 0)
            self.assertEqual(second["profiled"]["costs_reused"], report["profiled"]["costs_measured"])

    def check_report(self, report):
        self.assertEqual(report["schema"], "trimtab.report/1")
        self.assertGreater(report["initial"]["measured_ms"]["mean"], 0)
        self.assertGreater(report["adopted"]["measured_ms"]["mean"], 0)
        self.assertLessEqual(report["speedup"]["low"], report["speedup"]["ratio"])
        self.assertLessEqual(report["speedup"]["ratio"], report["speedup"]["high"])
        self.assertGreaterEqual(len(report["trials"]), 1)
        for trial in report["trials"]:
            self.assertIn(trial["state"], ("adopted", "rejected", "failed"))
        self.assertTrue(report["loss"]["same_samples"])
        self.assertGreater(report["loss"]["steps"], 10)
        self.assertLess(report["loss"]["max_abs_difference_to_untuned_run"], 1e-3)

    def check_databases(self, trimtab):
        for database in trimtab.state.rglob("costs.db"):
            with sqlite3.connect(database) as connection:
                self.assertEqual(connection.execute("pragma integrity_check").fetchone()[0], "ok", database)
        shown = json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)
        self.assertTrue(shown)


if __name__ == "__main__":
    unittest.main()
