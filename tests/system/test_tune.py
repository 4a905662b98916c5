"""The whole loop with real processes: a real PyTorch job is measured, searched, trialled and tuned. Tuned again it trains on: tune
returns and the daemons stay. It is traced and watched without being disturbed, and a killed daemon comes back beside the others."""

import json
import os
import sqlite3
import unittest

from installation import Installation, kill_hard, rank_processes, wait_until

# Of a rank's time; a sanitizer slows the daemons beside it.
LEAST_COMPUTATION = 0.01 if os.environ.get("TRIMTAB_SANITIZED") else 0.05


class TuneEndToEnd(unittest.TestCase):
    def setUp(self):
        self.trimtab = self.enterContext(Installation())

    def tuned(self, **job):
        """The report of a tune with daemons of its own."""
        tune = self.trimtab.start_tune(self.trimtab.write_job(MEMORY="1GiB", **job))
        self.assertEqual(tune.wait(timeout=240), 0, self.trimtab.tune_log())
        return self.trimtab.report()

    def test_a_job_is_tuned_and_a_second_run_reuses_the_costs_trains_on_is_traced_and_survives_a_killed_daemon(self):
        trimtab = self.trimtab
        first = self.tuned()
        self.check_report(first)
        self.assertGreater(first["profiled"]["costs_measured"], 10)
        self.check_databases()
        report = self.tuned(AFTER="continue")
        self.assertEqual(report["profiled"]["costs_measured"], 0)
        self.assertEqual(report["profiled"]["costs_reused"], first["profiled"]["costs_measured"])
        self.assertIn("trains on", trimtab.tune_log())
        self.assertIn(f"trimtab down --state {trimtab.state}", trimtab.tune_log())
        self.assertEqual(report["phase"], "training")
        self.assertTrue(report["timeline"]["initial"])
        ranks = rank_processes(trimtab.directory)
        self.assertEqual(len(ranks), 2)
        self.check_trains_on(ranks)
        for check in (self.check_steps, self.check_seconds, self.check_top, self.check_refusals):
            with self.subTest(check.__name__):
                check()
        self.assertEqual(rank_processes(trimtab.directory), ranks)
        for daemon, other in (("coordinator", "agent"), ("agent", "coordinator")):
            with self.subTest(killed=daemon):
                self.kill_and_repair(daemon, other)
                self.check_trains_on(ranks)
        trimtab.run("down", "--state", trimtab.state)
        wait_until(lambda: not rank_processes(trimtab.directory), "the ranks' end", 30)

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

    def check_databases(self):
        for database in self.trimtab.state.rglob("costs.db"):
            with sqlite3.connect(database) as connection:
                self.assertEqual(connection.execute("pragma integrity_check").fetchone()[0], "ok", database)

    def status(self):
        return json.loads(self.trimtab.run("status", "--state", self.trimtab.state, "--json").stdout)["jobs"][0]

    def check_trains_on(self, ranks):
        self.assertEqual(rank_processes(self.trimtab.directory), ranks)
        before = self.status()
        self.assertTrue(before["active"])
        wait_until(lambda: self.status()["step"] > before["step"], "another step", 30)
        wait_until(lambda: self.status()["phase"] == "training", "training", 30)

    def kill_and_repair(self, daemon, other):
        before = self.trimtab.processes()
        kill_hard(before[daemon])
        said = self.trimtab.run("up", "--state", self.trimtab.state).stdout
        after = self.trimtab.processes()
        self.assertIn(f"started again: {daemon}", said)
        self.assertNotEqual(after[daemon], before[daemon])
        self.assertEqual(after[other], before[other])
        self.assertEqual(after["port"], before["port"])

    def trace(self, *arguments):
        file = self.trimtab.directory / "trace.json"
        said = json.loads(self.trimtab.run("trace", "--state", self.trimtab.state, "-o", file, "--json", *arguments).stdout)
        document = json.loads(file.read_text())
        self.assertEqual(said["remarks"], document["otherData"]["remarks"])
        self.assertEqual(said["remarks"], [])
        self.assertEqual(said["processes"], 2)
        return said, document

    def check_steps(self):
        said, document = self.trace("--steps", "3")
        slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(slices), said["ranges"])
        for rank in (0, 1):
            mine = [event for event in slices if event["pid"] == rank]
            steps = [event for event in mine if event["name"] == "step"]
            self.assertEqual(len(steps), 3)
            numbers = [event["args"]["payload"] for event in steps]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 3)))
            for step in steps:
                begin, end = step["ts"], step["ts"] + step["dur"]
                inside = [event["name"] for event in mine if begin <= event["ts"] and event["ts"] + event["dur"] <= end + 0.001]
                self.assertTrue(any(name.startswith("op/") and name.endswith("/forward") for name in inside), inside)
                self.assertTrue(any(name.startswith("op/") and name.endswith("/backward") for name in inside), inside)
            self.check_nesting(mine)
        self.assertEqual({node["node"] for node in document["otherData"]["nodes"]}, {node["node"] for node in self.nodes()})

    def check_nesting(self, slices):
        """Slices of one track lie inside or beside each other, as readers of the format need."""
        for track in {event["tid"] for event in slices}:
            open_ends = []
            for event in sorted((e for e in slices if e["tid"] == track), key=lambda e: (e["ts"], -e["dur"])):
                while open_ends and open_ends[-1] <= event["ts"] + 1e-6:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(event["ts"] + event["dur"], open_ends[-1] + 1e-3, event)
                open_ends.append(event["ts"] + event["dur"])

    def check_seconds(self):
        said, document = self.trace("--seconds", "1")
        times = [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"]
        self.assertGreater(max(times) - min(times), 0.7e6)
        self.assertLess(max(times) - min(times), 1.5e6)
        self.assertGreater(said["records"], 20)

    def check_top(self):
        def live():
            page = json.loads(self.trimtab.run("top", "--state", self.trimtab.state, "--once", "--json").stdout)
            ranks = page["live"]["ranks"]
            return ranks if len(ranks) == 2 and all(rank["steps_measured"] > 0 and rank["busiest"] for rank in ranks) else None

        ranks = wait_until(live, "two ranks' shares", 30)
        for rank in ranks:
            shares = rank["shares"]
            whole = shares["computation"] + shares["exposed_communication"] + shares["exposed_copy"] + shares["idle"]
            self.assertAlmostEqual(whole, 1, places=6)
            self.assertGreater(shares["computation"], LEAST_COMPUTATION)
            self.assertEqual(rank["source"], "ranges")
            self.assertEqual(rank["step_found_by"], "ranges")
            self.assertTrue(any(kernel["name"].startswith("op/") for kernel in rank["busiest"]), rank["busiest"])
        page = self.trimtab.run("top", "--state", self.trimtab.state, "--once").stdout
        self.assertIn("steps/s", page)
        self.assertNotIn("\x1b", page)

    def check_refusals(self):
        gone = self.trimtab.directory / "no such directory" / "trace.json"
        self.assertEqual(self.trimtab.run("trace", "--state", self.trimtab.state, "-o", gone, check=False).returncode, 2)
        both = self.trimtab.run("trace", "--state", self.trimtab.state, "-o", "x", "--steps", "1", "--seconds", "1", check=False)
        self.assertEqual(both.returncode, 2)

    def nodes(self):
        return [{"node": node["name"]} if "name" in node else node
                for node in json.loads(self.trimtab.run("status", "--state", self.trimtab.state, "--json").stdout)["nodes"]]


if __name__ == "__main__":
    unittest.main()
