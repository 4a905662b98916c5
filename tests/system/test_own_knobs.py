"""`trimtab tune --knob ... -- COMMAND` of a script that knows nothing of Trimtab: hooks tell its steps, trials restart it."""
import statistics
import subprocess
import unittest

from installation import ROOT, TRIMTAB, Installation, wait_until

SCRIPT = ROOT / "tests" / "system" / "own_knobs_script.py"
STEPS = 1600


def lines_of(log):
    return [line.split() for line in log.read_text(encoding="utf-8").splitlines()]


class OwnKnobs(unittest.TestCase):
    def command(self, trimtab, *knobs, steps=STEPS):
        flags = [flag for knob in knobs for flag in ("--knob", knob)]
        return [str(TRIMTAB), "tune", "--state", str(trimtab.state), "--out", str(trimtab.out), "--overhead", "1", *flags,
                "--", "torchrun", "--nproc_per_node", "2", str(SCRIPT), "--output-dir", str(trimtab.directory / "saved"), "--max-steps",
                str(steps), "--log", str(trimtab.directory / "log")]

    def own_lines(self, trimtab, value, least):
        """What rank 0 of the job's own launches has written, once so many steps of it had the value; else None."""
        own = [line for line in lines_of(trimtab.directory / "log-0") if line[5:] == [str(trimtab.directory / "saved")]]
        return own if sum(line[2] == value for line in own) >= least else None

    def test_what_was_understood_is_shown_and_kept_before_anything_runs(self):
        with Installation() as trimtab:
            file = trimtab.directory / "job.toml"
            command = self.command(trimtab, "arg:--nap=0.02,0.09", "FLAVOUR=a,b@exact")
            command[2:2] = ["--dry-run", "--write", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 ranks, 1600 steps, ddp", done.stderr)
            self.assertIn("knob arg:--nap (rounding): --nap 0.02 | --nap 0.09", done.stderr)
            self.assertIn("knob env:FLAVOUR (exact): FLAVOUR=a | FLAVOUR=b", done.stderr)
            self.assertFalse(trimtab.state.exists())
            again = trimtab.run("tune", "--job", file, "--dry-run")
            self.assertEqual(again.stdout, "")
            self.assertIn("knob env:FLAVOUR (exact)", again.stderr)
            text = file.read_text(encoding="utf-8")
            self.assertIn('"arg:--nap" = ["0.02", "0.09"]', text)
            self.assertIn('TRIMTAB_WATCH = "1"', text)

    def test_a_script_that_knows_nothing_of_it_is_tuned_by_its_own_arguments(self):
        with Installation() as trimtab:
            command = self.command(trimtab, "arg:--nap=0.02,0.09")
            command.insert(2, "--allow-restarts")
            done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=trimtab.directory)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            report = trimtab.report()
            # Where time is left the way back is tried, too.
            states = [trial["state"] for trial in report["trials"]]
            self.assertIn(states, (["adopted"], ["adopted", "rejected"]), done.stdout + done.stderr)
            self.assertEqual(report["adopted"]["plan"]["own"], {"arg:--nap": "0.02"})
            self.assertIn("--nap 0.02", done.stdout)
            own = wait_until(lambda: self.own_lines(trimtab, "0.02", 60), "60 steps of the job with the value that won", 120)
            # Every step was trained, those after a stop from the checkpoint on. The last stop may be a moment ago.
            trained = {int(line[0]) for line in own}
            self.assertEqual(trained, set(range(max(trained) + 1)))
            before = statistics.median(float(line[4]) for line in own if line[2] == "0.09")
            after = statistics.median(float(line[4]) for line in own if line[2] == "0.02")
            self.assertLess(after, 0.6 * before)
            # A step that was trained again has learnt the same.
            losses = {}
            for line in own:
                losses.setdefault(line[0], set()).add(line[1])
            self.assertEqual([step for step, seen in losses.items() if len(seen) > 1], [])

    def test_a_command_that_cannot_be_tuned_says_what_is_missing(self):
        for words, needed in (
            (["--knob", "A=1,2", "--", "python3", str(SCRIPT), "--max-steps", "5"], "{checkpoint}"),
            (["--knob", "A=1,2", "--", "python3", str(SCRIPT), "--output-dir", "x"], "--steps N"),
            (["--knob", "arg:--output-dir=x,y", "--", "python3", str(SCRIPT), "--output-dir", "x", "--max-steps", "5"], "each launch has its own"),
            (["--knob", "A=1", "--knob", "A=2", "--", "python3", str(SCRIPT)], "given twice"),
            (["--knob", "A=1", "--job", "x", "--", "python3", str(SCRIPT)], "not both"),
            (["--knob", "flag:--x=maybe", "--", "python3", str(SCRIPT)], "on or off"),
            ([], "--job FILE, or the command"),
        ):
            done = subprocess.run([str(TRIMTAB), "tune", "--dry-run", *words], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertIn(needed, done.stderr)

    def test_a_command_that_was_not_read_whole_is_shown_and_not_run(self):
        with Installation() as trimtab:
            script = trimtab.directory / "go.sh"
            script.write_text(f'N=$(date +%s)\ntorchrun --nproc_per_node 2 {SCRIPT} --output-dir saved --max-steps 9 --log "$N" "$@"\n')
            words = [str(TRIMTAB), "tune", "--state", str(trimtab.state), "--knob", "A=1,2", "--", "bash", str(script), "--nap", "0.5"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("which only a run can tell", done.stderr)
            self.assertIn("--nap 0.5", done.stderr)
            self.assertFalse(trimtab.state.exists())


if __name__ == "__main__":
    unittest.main()
