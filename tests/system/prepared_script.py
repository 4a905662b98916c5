"""A user's script under torchrun's variables that knows nothing of Trimtab: plain PyTorch, a checkpoint each 20 steps. It says how it was
started, and what each step has learnt."""
import argparse
import json
import os
import resource
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def facts():
    opened = []
    for name in os.listdir("/proc/self/fd"):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # The listing's own.
    threads = [os.sched_getscheduler(int(one)) for one in os.listdir("/proc/self/task")]
    return {"argv": sys.argv, "orig_argv": sys.orig_argv, "environment": dict(os.environ), "path": sys.path, "directory": os.getcwd(),
            "mask": os.umask(0o022), "limits": [resource.getrlimit(one) for one in range(16)],
            "signals": [str(signal.getsignal(one)) for one in range(1, 65)], "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "leads": os.getpid() == os.getpgrp(), "session": os.getsid(0), "parent": os.getppid(), "input": os.readlink("/proc/self/fd/0"),
            "opened": sorted(opened), "policies": sorted(set(threads)), "nice": os.nice(0), "score": open("/proc/self/oom_score_adj").read(),
            "threads": torch.get_num_threads(), "cuda": torch.cuda.is_initialized(),
            "modules": sorted(sys.modules), "main": [__name__, __file__, str(__spec__)],
            "finders": [getattr(one, "__name__", type(one).__name__) for one in sys.meta_path if type(one).__name__ != "Notes"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-dir", required=True)
    parser.add_argument("--max-steps", type=int, required=True)
    parser.add_argument("--nap", type=float, default=0.09)
    parser.add_argument("--log", required=True)
    given = parser.parse_args()
    said = facts()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with open(f"{given.log}-facts-{rank}", "a", encoding="utf-8") as log:
        log.write(json.dumps(said) + "\n")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved, first = os.path.join(given.output_dir, "last.pt"), 0
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["steps"]
    for step in range(first, given.max_steps):
        time.sleep(given.nap)
        samples = torch.randn(8, 64, generator=torch.Generator().manual_seed(2 * step + rank))
        loss = (model(samples) - samples).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with open(f"{given.log}-losses-{rank}", "a", encoding="utf-8") as log:
            log.write(f"{step} {loss.item().hex()}\n")
        if (step + 1) % 20 == 0 and rank == 0:
            os.makedirs(given.output_dir, exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": step + 1}, saved + ".new")
            os.replace(saved + ".new", saved)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
