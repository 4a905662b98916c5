"""Runs a script of tests/frameworks/scripts twice, alone and watched. The script knows nothing of it and keeps a log of its own."""
import json
import os
import statistics
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "client_python"))
sys.path.append(os.path.join(os.path.dirname(HERE), "system"))

from own_log import NEAR, WARM, assert_near_own_log  # noqa: E402, F401
from watched_job import PYTHON, Agent, Job, WatchedJobTest  # noqa: E402

SCRIPTS = os.path.join(HERE, "scripts")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LAUNCH_S = 240
# What costs time and differs little from what always runs.
long = unittest.skipUnless(os.environ.get("TRIMTAB_TEST_LONG") == "1", "TRIMTAB_TEST_LONG=1 runs it")


class Run:
    """A folder in which a script has run: what it logged and left, and what its ranks told where it was watched."""

    def __init__(self, folder, job):
        self.folder, self.job = folder, job

    def log(self, rank=0):
        with open(os.path.join(self.folder, f"log-{rank}.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def document(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return json.load(file)

    def losses(self, rank=0):
        return [entry["loss"] for entry in self.log(rank)]

    def bytes_of(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def ms(self, rank=0):
        return [entry["ms"] for entry in self.log(rank) if entry["ms"] is not None]


class FrameworkTest(WatchedJobTest):
    maxDiff = 4000

    def launch(self, script, *launcher, watched, counted=False, arguments=(), **environment):
        folder = os.path.join(self.folder, "watched" if watched else "alone")
        os.makedirs(folder)
        agent = Agent(os.path.join(folder, "agent.sock"))
        common = self.environment(agent.path, **environment)
        if not watched:
            common = {name: value for name, value in common.items() if not name.startswith(("TRIMTAB", "PYTHONPATH"))}
        # What the compiler learnt in one run (sizes that change) saves the next one compilations.
        common["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "compiled")
        counting = (os.path.join(HERE, "counted.py"),) if counted else ()
        done = subprocess.run([PYTHON, *launcher, *counting, os.path.join(SCRIPTS, script), *arguments], cwd=folder, env=common,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LAUNCH_S, check=False)
        agent.close()
        job = Job([done.returncode], done.stdout, done.stderr, agent.connections)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        self.assertNotIn("trimtab:", done.stderr)
        self.assert_parts_fit(job)
        return Run(folder, job)

    def both(self, *what, **how):
        alone = self.launch(*what, watched=False, **how)
        self.assertEqual(alone.job.ranks, {})
        return alone, self.launch(*what, watched=True, **how)

    def assert_steps_near_own_log(self, run, ranks=1):
        """The median step that is told, without evaluation and checkpoints, is the script's own."""
        for rank in range(ranks):
            told = statistics.median([(step["wall_ns"] - step["parts"]["aside_ns"]) / 1e6 for step in run.job.steps(rank)][WARM:])
            assert_near_own_log(self, told, run.ms(rank))

    def assert_losses_told(self, run, own, rank=0):
        """Each step's loss is the script's own, which may have added it up in another order."""
        told = [step["loss"] for step in run.job.steps(rank)]
        self.assertEqual(len(told), len(own))
        for number, (one, other) in enumerate(zip(told, own)):
            self.assertAlmostEqual(one, other, places=5, msg=f"step {number} of rank {rank}")

    def assert_same_outputs(self, alone, watched, *, ranks=1, files=("model.pt",)):
        for rank in range(ranks):
            self.assertEqual(alone.losses(rank), watched.losses(rank))
        for name in files:
            self.assertEqual(alone.bytes_of(name), watched.bytes_of(name), name)
