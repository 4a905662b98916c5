"""Starts real ranks of the trainer on a tiny model, and reads what they leave."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAINER = os.path.join(ROOT, "trainer")
for folder in (TRAINER, os.path.join(ROOT, "client", "python")):
    if folder not in sys.path:
        sys.path.append(folder)

from rank_programs import FreshProgram, Program

SEED = int(os.environ.get("TRIMTAB_TEST_SEED", "7"))
GLOBAL_BATCH = 12
OPERATORS = 8
MODEL = f"""
name = "tiny"
layers = 3
hidden = 32
heads = 4
sequence = 16
vocabulary = 64
global_batch = {GLOBAL_BATCH}
learning_rate = 0.01
seed = {SEED}
"""
# At that rate the size of microbatches alone, by rounding, may move losses by 2e-4 and gradient norms by 1e-2 in 28 steps;
# at this one both by less than 1e-6.
STEADY = MODEL.replace("learning_rate = 0.01", "learning_rate = 0.001")


def plan(stages, microbatch, **schedule):
    """`stages`: (devices, begin, end, recompute ranges) each."""
    return {"schema": "trimtab.plan/1", "model": "tiny", "global_batch": GLOBAL_BATCH, "microbatch": microbatch,
            "schedule": {"kind": "1f1b", "transfers": "blocking", **schedule},
            "stages": [{"devices": devices, "segments": [
                {"operators": [begin, end], "dp": len(devices), "tp": 1, "recompute": recompute}]}
                for devices, begin, end, recompute in stages]}


SINGLE = plan([([0], 0, 8, [])], 12)
EVEN_RECOMPUTED = plan([([0], 0, 4, [[0, 4]]), ([1], 4, 8, [[4, 8]])], 1)
UNEVEN = plan([([0], 0, 6, [[1, 3]]), ([1], 6, 8, [])], 3)
REPLICATED = plan([([0, 1], 0, 8, [[2, 4]])], 4)
REVERSED = plan([([1], 0, 3, []), ([0], 3, 8, [])], 6)


class Run:
    """A finished or running set of ranks."""

    def __init__(self, processes, log):
        self._processes, self._log = processes, log
        self.codes, self.errors, self.output = [], [], []

    def wait(self, deadline_s=180):
        for process in self._processes:
            try:
                output, errors = process.communicate(timeout=deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"a rank hung (seed {SEED})") from None
            self.codes.append(process.returncode)
            self.output.append(output)
            self.errors.append(errors)
        return self

    def process(self, rank):
        return self._processes[rank]

    def kill(self):
        for process in self._processes:
            process.kill()
            process.wait()

    def lines(self):
        with open(self._log, encoding="utf-8") as file:
            return list(map(json.loads, file))

    def log(self):
        """Log lines by step; of a step that was run twice, the last."""
        return {line["step"]: line for line in self.lines()}


class JobTest(unittest.TestCase):
    """A scratch folder with the tiny model in it, and everything killed at the end."""

    fresh = False  # Ranks are no forks: for a test with a memory limit, under which a program that starts anew must fit, too.

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="trimtab-trainer-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = self.write("tiny.toml", MODEL)
        self._runs = 0

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def start(self, plan_document, world_size, steps, *extra, environment=None, config=None, script="train.py"):
        self._runs += 1
        name = f"run{self._runs}"
        plan_path = self.write(f"{name}.json", plan_document)
        log = os.path.join(self.folder, f"{name}.log")
        processes = []
        for rank in range(world_size):
            words = [os.path.join(TRAINER, script), "--config", config or self.config,
                     "--plan", plan_path, "--rank", str(rank), "--world-size", str(world_size),
                     "--rendezvous", f"file://{self.folder}/{name}.rendezvous", "--steps", str(steps),
                     "--log", log, "--pin", "off", *extra]
            settings = {"TRIMTAB_RANK": str(rank), "TRIMTAB_WORLD_SIZE": str(world_size), "TRIMTAB_JOB": "tiny"}
            clean = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB_")}
            own = {**clean, **settings, **(environment or {})}
            processes.append(FreshProgram(words, own) if self.fresh else
                             Program(words, os.path.join(self.folder, f"{name}.{rank}"), own))
        run = Run(processes, log)
        self.addCleanup(run.kill)
        return run

    def train(self, plan_document, world_size, steps, *extra, **named):
        run = self.start(plan_document, world_size, steps, *extra, **named).wait()
        self.assertEqual(run.codes, [0] * world_size, f"seed {SEED}: {run.errors}")
        return run.log()

    def assert_same_training(self, wanted, found, tolerance=1e-4):
        """The same steps saw the same samples and had the same loss up to rounding."""
        self.assertEqual(sorted(wanted), sorted(found), f"seed {SEED}: other steps")
        for step, line in wanted.items():
            other = found[step]
            self.assertEqual(line["samples"], other["samples"], f"seed {SEED}: step {step} saw other samples")
            difference = abs(line["loss"] - other["loss"]) / abs(line["loss"])
            self.assertLessEqual(difference, tolerance, f"seed {SEED}: loss of step {step}")
