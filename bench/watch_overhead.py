#!/usr/bin/python3
"""What watching costs a training script: CPU time of its training thread in a step, with hooks and without, in turn.

    /usr/bin/python3 bench/watch_overhead.py [--runs 5] [--steps 400] [--python PYTHON]

A small model on one CPU, with a socket that takes the frames. Times are of the thread, so other processes lengthen neither.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "client_python"))

from watched_job import CLIENT, HOOK, Agent

WARM = 20
SCRIPT = """
import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times = []
last = time.thread_time_ns()
for (x,) in DataLoader(TensorDataset(torch.randn(int(sys.argv[1]) * 16, 256)), batch_size=16):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
    now = time.thread_time_ns()
    times.append(now - last)
    last = now
print(*times)
"""


def steps(python, script, count, watch, folder):
    """The 10th percentile of the steps in microseconds: on a busy machine the others were interrupted."""
    agent = Agent(os.path.join(folder, f"{len(os.listdir(folder))}.sock"))
    environment = {**os.environ, "TRIMTAB_SOCKET": agent.path, "TRIMTAB_JOB": "bench", "TRIMTAB_WATCH": watch,
                   "PYTHONPATH": f"{HOOK}:{CLIENT}", "OMP_NUM_THREADS": "1"}
    said = subprocess.run([python, script, str(count)], env=environment, capture_output=True, text=True, check=True).stdout
    agent.close()
    told = sum(frame["type"] == "step" for frames in agent.connections for frame in frames)
    if told != (count if watch == "1" else 0):
        sys.exit(f"{count} steps, {told} were told")
    times = sorted(int(time) for time in said.split()[WARM:])
    return times[len(times) // 10] / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        pairs = [[steps(options.python, script, options.steps, watch, folder) for watch in "01"] for _ in range(options.runs)]
    bare, watched = (statistics.median(times) for times in zip(*pairs))
    costs = [with_hooks - without for without, with_hooks in pairs]
    print(f"step {bare:.0f} us bare, {watched:.0f} us watched: {statistics.median(costs):.0f} us a step "
          f"(of {options.runs} pairs {min(costs):.0f} to {max(costs):.0f})")


if __name__ == "__main__":
    main()
