"""A running job of the real trainer is traced and watched, without being disturbed or started anew."""

import json
import os
import unittest

from installation import Installation, rank_processes, wait_until

# Of a rank's time; a sanitizer slows the daemons beside it.
LEAST_COMPUTATION = 0.01 if os.environ.get("TRIMTAB_SANITIZED") else 0.05


class TraceAndTop(unittest.TestCase):
    def test_a_training_job_is_traced_and_watched(self):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB", AFTER="continue")
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=240), 0, trimtab.tune_log())
            ranks = rank_processes(trimtab.directory)
            self.check_steps(trimtab)
            self.check_seconds(trimtab)
            self.check_top(trimtab)
            self.check_refusals(trimtab)
            self.assertEqual(rank_processes(trimtab.directory), ranks)
            trimtab.run("down", "--state", trimtab.state)

    def trace(self, trimtab, *arguments):
        file = trimtab.directory / "trace.json"
        said = json.loads(trimtab.run("trace", "--state", trimtab.state, "-o", file, "--json", *arguments).stdout)
        document = json.loads(file.read_text())
        self.assertEqual(said["remarks"], document["otherData"]["remarks"])
        self.assertEqual(said["remarks"], [])
        self.assertEqual(said["processes"], 2)
        return said, document

    def check_steps(self, trimtab):
        said, document = self.trace(trimtab, "--steps", "3")
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
        self.assertEqual({node["node"] for node in document["otherData"]["nodes"]}, {node["node"] for node in self.nodes(trimtab)})

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

    def check_seconds(self, trimtab):
        said, document = self.trace(trimtab, "--seconds", "1")
        times = [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"]
        self.assertGreater(max(times) - min(times), 0.7e6)
        self.assertLess(max(times) - min(times), 1.5e6)
        self.assertGreater(said["records"], 20)

    def check_top(self, trimtab):
        def live():
            page = json.loads(trimtab.run("top", "--state", trimtab.state, "--once", "--json").stdout)
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
        page = trimtab.run("top", "--state", trimtab.state, "--once").stdout
        self.assertIn("steps/s", page)
        self.assertNotIn("\x1b", page)

    def check_refusals(self, trimtab):
        gone = trimtab.directory / "no such directory" / "trace.json"
        self.assertEqual(trimtab.run("trace", "--state", trimtab.state, "-o", gone, check=False).returncode, 2)
        both = trimtab.run("trace", "--state", trimtab.state, "-o", "x", "--steps", "1", "--seconds", "1", check=False)
        self.assertEqual(both.returncode, 2)

    def nodes(self, trimtab):
        return [{"node": node["name"]} if "name" in node else node
                for node in json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)["nodes"]]


if __name__ == "__main__":
    unittest.main()
