"""A job that is restarted for its trials: the torchrun example, for real, with fewer steps."""
import json
import subprocess
import unittest

from installation import Installation
from torchrun_job import write_torchrun_job


def checkpoint_step(path):
    """The step that a checkpoint was saved after."""
    done = subprocess.run(["/usr/bin/python3", "-c", "import sys, torch; print(torch.load(sys.argv[1])['step'])", path],
                          capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


class RestartedJob(unittest.TestCase):
    def test_trials_run_apart_and_the_job_goes_on_with_the_winner(self):
        with Installation() as trimtab:
            # It is stopped just after a checkpoint; each block is a launch, and one is enough for a plan that is so much faster.
            job = write_torchrun_job(trimtab.directory, {
                r'"--save-every", "500"': '"--save-every", "50"', r"^blocks = .*$": "blocks = 1",
                r"^deadline_s = .*$": 'deadline_s = 90\nafter = "stop"\nloss_check_steps = 0'})
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=900), 0, trimtab.tune_log() + trimtab.all_logs())
            report = trimtab.report()
            self.assertEqual(len(report["trials"]), 1, report["trials"])
            trial = report["trials"][0]
            self.assertEqual(trial["state"], "adopted", trimtab.tune_log() + json.dumps(trial))
            phases = trial["cost"]["switch_phases_ms"]
            for phase in ("stop", "copy", "start", "groups", "first_step"):
                self.assertGreater(phases[phase], 0, phases)
            self.assertAlmostEqual(sum(phases.values()), trial["cost"]["switch_ms"], delta=1)
            self.assertGreater(int(trial["plan"]["target_knobs"]["bucket_bytes"]), 0)
            # The trial had a copy, in a scratch of its own; the job's checkpoint is the job's.
            copies = list(trimtab.state.rglob("checkpoint/state.pt"))
            self.assertEqual(len(copies), 1, copies)
            saved = trimtab.directory / "saved" / "state.pt"
            self.assertGreater(checkpoint_step(saved), 0)


if __name__ == "__main__":
    unittest.main()
