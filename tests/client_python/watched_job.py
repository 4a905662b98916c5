"""A training script run as `trimtab run` runs it, and the frames that it sends to a socket that stands for the agent's.

TRIMTAB_TEST_PYTHON names another Python than Debian's: that of an environment with PyTorch 2.x.
"""
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
HOOK = os.path.join(CLIENT, "watch_hook")
sys.path.insert(0, CLIENT)

from recording_agent import Agent

PYTHON = os.environ.get("TRIMTAB_TEST_PYTHON", "/usr/bin/python3")
SLACK_NS = 1_000_000
START = """
import os, sys, time
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
loss_of = nn.functional.cross_entropy

def mlp(width=64, depth=3):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)], nn.Linear(width, 10))

def samples(count, width=64):
    return TensorDataset(torch.randn(count, width), torch.randint(0, 10, (count,)))

class Sleep(nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
    def forward(self, x):
        time.sleep(self.seconds)
        return x
"""


class Job:
    """What a script did that has ended: its exit code and output, and of each rank the frames."""

    def __init__(self, codes, output, errors, connections):
        self.codes, self.output, self.errors = codes, output, errors
        self.ranks = {}
        for frames in connections:
            self.ranks.setdefault(frames[0]["rank"], []).extend(frames)

    def frames(self, kind, rank=0):
        return [frame for frame in self.ranks.get(rank, []) if frame["type"] == kind]

    def steps(self, rank=0):
        return self.frames("step", rank)

    def facts(self, rank=0):
        return self.frames("facts", rank)[-1]


def part(steps, name):
    """The median of a part over steps, in ms."""
    values = sorted(step["parts"][f"{name}_ns"] for step in steps)
    return values[len(values) // 2] / 1e6


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


HAS_TORCH = has_torch()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A thread of PyTorch 2's Gloo that frees a tensor as Python ends aborts the process, watched or not: 1 of 20 ranks under DDP.
LEAVE = "\nimport time\ntime.sleep(0.2)\n"


class WatchedJobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="watched-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def environment(self, path, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB", "PYTHON", "SLURM"))}
        return {**kept, "TRIMTAB_SOCKET": path, "TRIMTAB_JOB": "job", "TRIMTAB_WATCH": "1", "OMP_NUM_THREADS": "1",
                "PYTHONPATH": f"{HOOK}:{CLIENT}", "PYTHONDONTWRITEBYTECODE": "1", **more}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_job(self, text, *, ranks=1, start=START, arguments=(), check=True, python=(PYTHON,), **environment):
        """The script runs, once for each rank, to its end."""
        script = self.write("train.py", start + textwrap.dedent(text) + (LEAVE if ranks > 1 else ""))
        agent = Agent(os.path.join(self.folder, f"agent{len(os.listdir(self.folder))}.sock"))
        common = self.environment(agent.path, **environment)
        if ranks > 1:
            common.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        processes = []
        for rank in range(ranks):
            own = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else common
            processes.append(subprocess.Popen([*python, script, *arguments], env=own, cwd=self.folder, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        said = [process.communicate(timeout=300) for process in processes]
        agent.close()
        job = Job([process.returncode for process in processes], "".join(out for out, _ in said),
                  "".join(error for _, error in said), agent.connections)
        if check:
            self.assertEqual(job.codes, [0] * ranks, job.errors)
            self.assert_parts_fit(job)
            self.assertNotIn("trimtab:", job.errors)
        return job

    def assert_parts_fit(self, job):
        """No step's parts are more than the step. What is recomputed is in the backward pass, what was stolen in all of them."""
        for rank in job.ranks:
            for step in job.steps(rank):
                parts = dict(step["parts"])
                self.assertLessEqual(parts["recompute_ns"], parts["backward_ns"])
                del parts["recompute_ns"]
                self.assertLessEqual(parts.pop("stolen_ns", 0), step["wall_ns"] + SLACK_NS, step)
                self.assertLessEqual(sum(parts.values()), step["wall_ns"] + SLACK_NS, step)
                self.assertGreaterEqual(min(parts.values()), 0)
