"""The programs with PyTorch in them, each run in a process of its own: forked from one that has PyTorch loaded and no
CUDA started, so that a run costs a fork and a start of CUDA, not an import. A fork before CUDA's start is injected
afresh.

Reads requests from standard input, one JSON object a line: {"program", "environment", "settings"}; answers each with
one line, {"result"} or {"error"}.
"""
import json
import os
import sys
import time

import torch
from torch import nn

from plan_programs import join, planned
from step_programs import llama, loops, megatron, touched


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True,
                                                norm_first=True)

    def forward(self, x):
        return self.layer(x)


class Training:
    """A transformer in bfloat16 with Adam; gradients pass through a one-rank NCCL all-reduce."""

    def __init__(self, width=1024, layers=2, batch=8, sequence=512):
        torch.manual_seed(1)
        self.model = nn.Sequential(*(Block(width) for _ in range(layers))).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(batch, sequence, width, device="cuda")

    def step(self):
        with torch.cuda.nvtx.range("forward"), torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.model(self.x).float().pow(2).mean()
        with torch.cuda.nvtx.range("backward"):
            loss.backward()
        with torch.cuda.nvtx.range("optimizer"):
            for parameter in self.model.parameters():
                torch.distributed.all_reduce(parameter.grad)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def timed_step(self):
        with torch.cuda.nvtx.range("step"):
            self.step()
            torch.cuda.synchronize()


def profiled(settings):
    """Steps, then torch.profiler's, again and again, and steps at the end: how many events on the device each of the
    traces has, and when steps were taken without it."""
    join(settings)
    work = Training()
    quiet, events = [steps_for(work, settings["seconds"])], []
    for _ in range(settings["traces"]):
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(settings["profiled_steps"]):
                work.timed_step()
        on_device = torch.autograd.DeviceType.CUDA
        events.append(sum(1 for event in profiler.events() if event.device_type == on_device))
        quiet.append(steps_for(work, settings["seconds"]))
    torch.distributed.destroy_process_group()
    return {"events_on_device": events, "without_profiler": quiet}


def steps_for(work, seconds):
    """Takes steps for so long: when it began and ended and when each step did, in nanoseconds of real time."""
    begin, ended = time.time_ns(), []
    while time.time_ns() < begin + seconds * 1e9:
        work.timed_step()
        ended.append(time.time_ns())
    return begin, time.time_ns(), ended


def collectives(settings):
    """All-reduces among processes that share the GPU; durations mean nothing there and are not taken."""
    join(settings)
    rank, size = settings["rank"], settings["world_size"]
    tensor = torch.empty(settings["elements"], device="cuda")
    for _ in range(settings["count"]):
        tensor.fill_(rank + 1.0)
        torch.distributed.all_reduce(tensor)
    wanted = size * (size + 1) / 2
    wrong = int((tensor != wanted).sum())
    torch.distributed.destroy_process_group()
    return {"wrong_elements": wrong, "collectives": settings["count"]}


PROGRAMS = {one.__name__: one for one in (profiled, collectives, planned, llama, loops, megatron, touched)}


def in_child(request, out):
    """The forked process: never returns."""
    status = 0
    try:
        os.environ.clear()
        os.environ.update(request["environment"])
        answer = {"result": PROGRAMS[request["program"]](request["settings"])}
    except BaseException as error:
        answer, status = {"error": f"{type(error).__name__}: {error}"}, 1
    out.write(json.dumps(answer) + "\n")
    out.flush()
    sys.stderr.flush()
    if status == 0:
        sys.exit(0)  # The whole way out: what is registered for the end of a process is part of the run.
    os._exit(status)


def serve():
    # What libraries print must not stand between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            in_child(json.loads(line), out)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        out.write(json.dumps({"ended": code}) + "\n")
        out.flush()


if __name__ == "__main__":
    # With a request as argument: that alone, in this process, for a tool that watches the processes that it starts itself.
    if len(sys.argv) > 1:
        asked = json.loads(sys.argv[1])
        print(json.dumps(PROGRAMS[asked["program"]](asked["settings"])))
    else:
        serve()
