"""A job of Megatron-LM's shape, tuned by restarts through trimtab.megatron: two real ranks, an unmodified script."""
import itertools
import json
import pathlib
import unittest

from installation import ROOT, TRIMTAB, Installation, free_port, wait_until

JOB = pathlib.Path(__file__).parent / "megatron_job"
# Long enough that four launches, four seconds each, fit into it where a step takes but 12 ms.
STEPS, SAVE = 1600, 100


class MegatronJob(unittest.TestCase):
    def write_job(self, trimtab):
        values = {"ROOT": ROOT, "TRIMTAB": TRIMTAB, "DIR": trimtab.directory, "PORT": free_port(), "STEPS": STEPS, "SAVE": SAVE}
        for name in ("arguments.txt", "initial.json", "job.toml"):
            text = (JOB / name).read_text(encoding="utf-8")
            for word, value in values.items():
                text = text.replace(f"@{word}@", str(value))
            (trimtab.directory / name).write_text(text, encoding="utf-8")
        return trimtab.directory / "job.toml"

    def phase(self, trimtab):
        return trimtab.get("/v1/jobs/megatron-small")["phase"]

    def launches(self, trimtab):
        """[(variant, the iterations that it did)] of each launch, in order."""
        lines = [json.loads(line) for line in (trimtab.directory / "steps.jsonl").read_text().splitlines()]
        return [(variant, [line[2] for line in run]) for (variant, _), run in
                itertools.groupby(lines, lambda line: (line[0], line[1]))]

    def test_trials_run_and_the_job_ends_with_all_its_iterations(self):
        with Installation() as trimtab:
            tune = trimtab.start_tune(self.write_job(trimtab))
            self.assertEqual(tune.wait(timeout=240), 0, trimtab.tune_log() + trimtab.all_logs())
            trials = trimtab.report()["trials"]
            self.assertEqual(len(trials), 1, trimtab.tune_log() + trimtab.all_logs())
            (trial,) = trials
            self.assertIn(trial["state"], ("adopted", "rejected"), trimtab.tune_log() + json.dumps(trial))
            self.assertGreater(trial["cost"]["switch_phases_ms"]["start"], 0)
            saved = trimtab.directory / "saved" / "latest_checkpointed_iteration.txt"
            ended = ("finished", "stopped", "failed")
            wait_until(lambda: self.phase(trimtab) in ended, "the job's end", 120)
            self.assertEqual((self.phase(trimtab), saved.read_text()), ("finished", str(STEPS)), trimtab.all_logs())
            self.check_iterations(self.launches(trimtab))

    def check_iterations(self, launches):
        """Trials begin where the job has saved; the job does each iteration once, but for those since it saved."""
        # One launch of the candidate is enough where its steps and those of the job before it leave no doubt.
        self.assertTrue(any(variant for variant, _ in launches), launches)
        last = 0
        for variant, done in launches:
            self.assertEqual(done, list(range(done[0], done[-1] + 1)), variant)
            self.assertLessEqual(done[0], last + 1, variant)
            self.assertGreater(done[0] + SAVE, last, variant)
            last = last if variant else done[-1]
        self.assertEqual(last, STEPS)


if __name__ == "__main__":
    unittest.main()
