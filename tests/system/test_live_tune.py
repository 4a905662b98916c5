"""`trimtab tune -- torchrun ... SCRIPT` of a script that uses trimtab.parallel: its plans are tried as it trains. No rank is launched twice,
and nothing is saved."""
import math
import statistics
import subprocess
import unittest

from installation import ROOT, TRIMTAB, Installation, wait_until

SCRIPT = ROOT / "tests" / "system" / "live_job" / "train.py"


class LiveTune(unittest.TestCase):
    def setUp(self):
        self.trimtab = self.enterContext(Installation())

    def tune(self, *flags, steps=20000):
        command = [TRIMTAB, "tune", "--state", self.trimtab.state, "--out", self.trimtab.out, "--overhead", "1", *flags, "--", "torchrun",
                   "--nproc_per_node", "2", SCRIPT, "--batch-size", "1", "--steps", steps, "--log", self.trimtab.directory / "log"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, cwd=self.trimtab.directory)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def lines(self, rank):
        return [line.split() for line in (self.trimtab.directory / f"log-{rank}").read_text(encoding="utf-8").splitlines()[:-1]]

    def test_what_was_understood_is_shown_and_kept_before_anything_runs(self):
        file = self.trimtab.directory / "job.toml"
        said = self.tune("--dry-run", "--write", file).stderr
        self.assertIn("trials are live: plans change as it trains, and nothing is stopped", said)
        self.assertIn("runs now: microbatch 2; [0, 4) dp2", said)
        self.assertFalse(self.trimtab.state.exists())
        text = file.read_text(encoding="utf-8")
        self.assertIn('delivery = "live"', text)
        self.assertIn('initial_plan = "plan.json"', text)
        self.assertNotIn("checkpoint =", text)
        self.assertIn("trials are live", self.trimtab.run("tune", "--job", file, "--dry-run").stderr)

    def test_plans_are_tried_and_one_is_adopted_in_the_processes_that_train(self):
        done = self.tune()
        report = self.trimtab.report()
        adopted = report["adopted"]["plan"]
        self.assertIn("adopted", [trial["state"] for trial in report["trials"]], done.stdout + done.stderr)
        self.assertGreater(adopted["microbatch"], 2)
        wait_until(lambda: [line[3] for line in self.lines(0)[-50:]] == [str(adopted["microbatch"] // 2)] * 50, "50 steps under what was adopted", 60)
        for rank in (0, 1):
            lines = self.lines(rank)
            self.assertEqual([int(line[0]) for line in lines], list(range(len(lines))), "no step is lost, and none is trained twice")
            self.assertEqual(len({line[1] for line in lines}), 1, "one process")
            self.assertGreaterEqual(len({tuple(line[3:]) for line in lines}), 2, "plans")
            self.assertTrue(all(int(line[3]) * int(line[4]) == 16 for line in lines), "samples of a step")
            losses = [float(line[2]) for line in lines]
            self.assertTrue(all(map(math.isfinite, losses)))
            self.assertLess(statistics.median(losses[-50:]), 0.5 * statistics.median(losses[:50]))
        both = zip(*([line[2:] for line in self.lines(rank)] for rank in (0, 1)))
        self.assertEqual([step for step, (one, other) in enumerate(both) if one != other], [], "ranks change at the same step")


if __name__ == "__main__":
    unittest.main()
