"""A user's script that knows nothing of Trimtab: plain PyTorch under torchrun's variables, a checkpoint each 20 steps, no handler for
SIGTERM. Its logs say what it trained, and with which arguments."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--output-dir", required=True)
parser.add_argument("--max-steps", type=int, required=True)
parser.add_argument("--nap", type=float, default=0.09)
parser.add_argument("--log", required=True)
given = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
saved, first = os.path.join(given.output_dir, "last.pt"), 0
if os.path.exists(saved):
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["steps"]
for step in range(first, given.max_steps):
    begun = time.monotonic()
    time.sleep(given.nap)  # What the arguments make slow; the same on every machine.
    samples = torch.randn(8, 64, generator=torch.Generator().manual_seed(2 * step + rank))
    loss = (model(samples) - samples).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with open(f"{given.log}-{rank}", "a", encoding="utf-8") as log:
        log.write(f"{step} {loss.item():.6f} {given.nap} {os.environ.get('FLAVOUR', '-')} {time.monotonic() - begun:.4f} "
                  f"{given.output_dir}\n")
    if (step + 1) % 20 == 0 and rank == 0:
        os.makedirs(given.output_dir, exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": step + 1}, saved + ".new")
        os.replace(saved + ".new", saved)
dist.destroy_process_group()
