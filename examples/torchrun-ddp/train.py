"""Trains the model under torchrun; the plan decides microbatches, checkpointing, buckets and where optimizer states are.

The lines that are Trimtab's are marked. Started from a checkpoint, it goes on from there; on SIGTERM it saves one.
"""
import argparse
import os
import sys

import torch
import torch.distributed as distributed
import trimtab.parallel

from model import CLASSES, FEATURES, Model


def batch_of(step, rank, samples):
    """This rank's share of the step's global batch: the same samples under every plan."""
    generator = torch.Generator().manual_seed(step)
    world = distributed.get_world_size()
    x = torch.randn(samples * world, FEATURES, generator=generator)
    y = (x[:, :CLASSES].abs() + 0.1 * x[:, CLASSES : 2 * CLASSES]).argmax(1)
    mine = slice(rank * samples, (rank + 1) * samples)
    return {"x": x[mine], "y": y[mine]}


def loss_of(model, part):
    return torch.nn.functional.cross_entropy(model(part["x"]), part["y"])


def save(path, step, model, optimizer):
    """Whole or not at all, the same whatever the plan was."""
    if hasattr(optimizer, "consolidate_state_dict"):
        optimizer.consolidate_state_dict(to=0)
    if distributed.get_rank() == 0:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    distributed.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True, help="folder of the checkpoint")
    parser.add_argument("--steps", type=int, required=True, help="steps in all")
    parser.add_argument("--save-every", type=int, default=0, help="steps; 0: only at the end")
    given = parser.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    torch.manual_seed(1)
    plain = Model()
    path = os.path.join(given.checkpoint, "state.pt")
    state = torch.load(path) if os.path.exists(path) else None
    if state:
        plain.load_state_dict(state["model"])
    first = torch.tensor(state["step"] if state else 0)
    mine = int(first)
    distributed.broadcast(first, 0)
    first = int(first)
    if first != mine:
        sys.exit(f"rank {distributed.get_rank()} found step {mine} in {path} and rank 0 step {first}: every node must reach the same folder")

    run = trimtab.parallel.load(batch_size=16)                              # Trimtab: 16 where there is no plan
    model = run.wrap(plain, plain.layers)                                   # Trimtab
    optimizer = run.optimizer(model, torch.optim.AdamW, lr=1e-3)            # Trimtab
    if state:
        optimizer.load_state_dict(state["optimizer"])
    samples, done = run.configuration.samples_per_rank, first
    for step in run.steps(first, given.steps):                              # Trimtab
        loss = run.step(model, optimizer, batch_of(step, distributed.get_rank(), samples), loss_of)  # Trimtab
        done = step + 1
        if distributed.get_rank() == 0 and step % 20 == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
        if given.save_every and done % given.save_every == 0:
            save(path, done, model, optimizer)
    save(path, done, model, optimizer)
    distributed.barrier()
    distributed.destroy_process_group()
    # No destructors: PyTorch 1.13's DistributedDataParallel, freed, may wait for ever for a thread of Gloo that waits for Python.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
