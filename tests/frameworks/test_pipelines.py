"""Pipelines as trimtab.pipelining makes them of a plan's file: Gloo ranks train as one process does, and `trimtab tune` tries plans of them."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CLIENT = HERE.parents[1] / "client" / "python"
sys.path[:0] = [str(HERE.parent / "client_python"), str(CLIENT), str(HERE.parent / "system")]

from framework_job import long  # noqa: E402
from installation import TRIMTAB, Installation, wait_until  # noqa: E402
from watched_job import PYTHON  # noqa: E402

BATCH, LAYERS = 16, 8
# What each file says, and of it the class, the stages and the pipelines.
ON_TWO_RANKS = {
    "gpipe": ({"schedule": "GPipe", "group_size": 2, "n_microbatches": 2, "split_layers": [5], "checkpoint_layers": [0, 6]},
              ("ScheduleGPipe", 2, 1)),
    "interleaved": ({"schedule": "Interleaved1F1B", "group_size": 2, "n_microbatches": 4, "split_layers": [1, 2, 6],
                     "checkpoint_layers": list(range(LAYERS))}, ("ScheduleInterleaved1F1B", 4, 1)),
    "replicas": ({"schedule": "1F1B", "group_size": 1, "n_microbatches": 2, "split_layers": []}, ("Schedule1F1B", 1, 2)),
    "unplanned": (None, ("Schedule1F1B", 2, 1)),
}
ON_FOUR_RANKS = {
    "gpipe": ({"schedule": "GPipe", "group_size": 4, "n_microbatches": 2, "split_layers": [1, 3, 4]}, ("ScheduleGPipe", 4, 1)),
    "1f1b": ({"schedule": "1F1B", "group_size": 2, "n_microbatches": 4, "split_layers": [5], "checkpoint_layers": [0, 6]},
             ("Schedule1F1B", 2, 2)),
    "interleaved": ({"schedule": "Interleaved1F1B", "group_size": 2, "n_microbatches": 2, "split_layers": [1, 2, 6],
                     "checkpoint_layers": [7]}, ("ScheduleInterleaved1F1B", 4, 2)),
    "unplanned": (None, ("Schedule1F1B", 4, 1)),
}


def file_of(said, ranks):
    if said is None:
        return ""
    share = BATCH * said["group_size"] // ranks
    return json.dumps({"schema": "trimtab.pipelining/1", "world_size": ranks, "global_batch": BATCH, "batch_size": share, "layers": LAYERS, **said})


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB_WATCH", "TRIMTAB_TARGET", "RANK", "WORLD_SIZE"))}
    return {**kept, "PYTHONPATH": str(CLIENT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}"}


class PipelinedRanks(unittest.TestCase):
    def run_ranks(self, ranks, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, said in files.items():
                (pathlib.Path(folder) / f"{name}.json").write_text(file_of(said, ranks), encoding="utf-8")
            done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks),
                                   HERE / "scripts" / "pipelined_ranks.py", folder], check=False, capture_output=True, text=True, timeout=240,
                                  env=environment())
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return {told.pop("file"): told for told in map(json.loads, done.stdout.splitlines())}

    def check(self, ranks, cases):
        told = self.run_ranks(ranks, {"plain": None, **{name: said for name, (said, _) in cases.items()}})
        plain = told.pop("plain")["losses"]
        self.assertGreater(plain[0], 1.01 * plain[-1], "it learns")
        self.assertEqual(set(told), set(cases))
        for name, run in told.items():
            with self.subTest(file=name):
                self.assertEqual((run["schedule"], run["stages"], run["pipelines"]), cases[name][1])
                for mine, one in zip(run["losses"], plain, strict=True):
                    self.assertAlmostEqual(mine, one, delta=1e-5 * max(1, one))

    def test_losses_are_those_of_one_process(self):
        self.check(2, ON_TWO_RANKS)

    @long
    def test_losses_of_several_pipelines_are_those_of_one_process(self):
        self.check(4, ON_FOUR_RANKS)

    @long
    def test_a_tracer_cuts_the_model_in_the_same_places(self):
        said = {"schedule": "GPipe", "group_size": 1, "n_microbatches": 2, "split_layers": []}
        for splits, layers in (([], [8]), ([1, 3, 4], [1, 2, 1, 4])):
            said.update(group_size=len(layers), split_layers=splits)
            traced = self.run_ranks(len(layers), {"traced": said})["traced"]
            self.assertEqual(traced, {"stages": len(layers), "layers": layers, "whole": True})


@long
@unittest.skipUnless(TRIMTAB.exists(), "trimtab is not built")
class PipelineTune(unittest.TestCase):
    STEPS = 60000  # None trains so long: trials may cost what the job takes.
    TRIALS = "\n[trials]\nmax_trials = 1\ncandidates = 1\nwarmup_steps = 3\nmeasure_steps = 10\noverhead = 1.0\n"

    def tune(self, trimtab):
        """The command as it is typed, kept as a job with one trial. What was said, and the job's own log."""
        log, job = trimtab.directory / "log", trimtab.directory / "job.toml"
        words = ["tune", "--dry-run", "--write", str(job), "--", "torchrun", "--nproc_per_node", "2", str(HERE / "scripts" / "pipelined_job.py"),
                 "--checkpoint", str(trimtab.directory / "saved"), "--steps", str(self.STEPS), "--log", str(log)]
        done = subprocess.run([str(TRIMTAB), *words], capture_output=True, text=True, timeout=60, env=environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"2 ranks, {self.STEPS} steps, pipelining", done.stderr)
        job.write_text(job.read_text(encoding="utf-8") + self.TRIALS, encoding="utf-8")
        self.assertEqual(trimtab.start_tune(job, "--allow-restarts").wait(timeout=500), 0, trimtab.tune_log() + trimtab.all_logs())
        return trimtab.tune_log(), log

    def own_lines(self, trimtab, log, chosen, least):
        """What the job's own launches have logged, once so many steps of it ran what won; else None."""
        own = [line for line in map(str.split, log.read_text(encoding="utf-8").splitlines()) if line[5:] == [str(trimtab.directory / "saved")]]
        return own if sum(line[2:4] == chosen for line in own) >= least else None

    def test_a_better_plan_is_adopted_and_no_step_is_lost(self):
        with Installation() as trimtab:
            said, log = self.tune(trimtab)
            report = trimtab.report()
            self.assertEqual([trial["state"] for trial in report["trials"]], ["adopted"], said)
            plan = report["adopted"]["plan"]
            replicas = plan["stages"][0]["segments"][0]["dp"]
            chosen = [str(plan["global_batch"] // plan["microbatch"]), str(replicas)]
            self.assertIn(f"n_microbatches={chosen[0]}, group_size={2 // replicas}", said)
            own = wait_until(lambda: self.own_lines(trimtab, log, chosen, 60), "60 steps of the job with the plan that won", 120)
            first = own[0][2:4]
            self.assertNotEqual(first, chosen)
            trained = {int(line[0]) for line in own}
            self.assertEqual(trained, set(range(max(trained) + 1)))
            before, after = (statistics.median(float(line[4]) for line in own if line[2:4] == which) for which in (first, chosen))
            self.assertLess(after, before)


if __name__ == "__main__":
    unittest.main()
