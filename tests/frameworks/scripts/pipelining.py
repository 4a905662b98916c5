"""A small network in a pipeline by torch.distributed.pipelining, four microbatches a step.
torchrun --nproc-per-node 2 pipelining.py gpipe|1f1b|interleaved"""
import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

STEPS = 20
MICROBATCHES = 4
BATCH = 32


def part(last):
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 10 if last else 256))


def main():
    kind = sys.argv[1]
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    count = 2 * ranks if kind == "interleaved" else ranks
    stages = [PipelineStage(part(index == count - 1), index, count, torch.device("cpu")) for index in range(rank, count, ranks)]
    if kind == "interleaved":
        schedule = ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_fn=nn.functional.cross_entropy)
    else:
        schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[kind](stages[0], MICROBATCHES, loss_fn=nn.functional.cross_entropy)
    optimizer = torch.optim.AdamW([p for stage in stages for p in stage.submod.parameters()], lr=1e-3)
    generator = torch.Generator().manual_seed(2)
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began = time.perf_counter()
        for _ in range(STEPS):
            x, y = torch.randn(BATCH, 256, generator=generator), torch.randint(0, 10, (BATCH,), generator=generator)
            losses = []
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(x)
            else:
                schedule.step(target=y, losses=losses)
            optimizer.step()
            now = time.perf_counter()
            loss = sum(one.item() for one in losses) / len(losses) if losses else None
            log.write(json.dumps({"loss": loss, "ms": 1000 * (now - began)}) + "\n")
            began = now
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
