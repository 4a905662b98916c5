"""A user's DDP script with the lines of trimtab.parallel, which saves nothing. Its logs say what each process has trained, and how."""
import argparse
import os

import torch
import torch.distributed as distributed
import trimtab.parallel

from model import WIDTH, Model

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--log", required=True)
given = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank = distributed.get_rank()
plain = Model()
run = trimtab.parallel.load(batch_size=given.batch_size, gradient_accumulation_steps=16)
model = run.wrap(plain, plain.layers)
optimizer = run.optimizer(model, torch.optim.AdamW, lr=1e-3)
with open(f"{given.log}-{rank}", "a", encoding="utf-8", buffering=1) as log:
    for step in run.steps(0, given.steps):
        x = torch.randn(run.configuration.samples_per_rank, WIDTH, generator=torch.Generator().manual_seed(2 * step + rank))
        chosen = run.configuration
        loss = run.step(model, optimizer, x, lambda model, part: (model(part) - part.sum(1, keepdim=True)).pow(2).mean())
        print(step, os.getpid(), loss, chosen.samples_per_microbatch, chosen.accumulation_steps, chosen.bucket_cap_mb,
              len(chosen.checkpoint_layers), file=log)
distributed.barrier()
os._exit(0)  # No destructors: PyTorch 1.13's DistributedDataParallel, freed, may wait for ever for a thread of Gloo that waits for Python.
