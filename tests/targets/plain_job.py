"""A rank, or the only process, of an integrated script that uses what real ones do: parameter groups, DDP's own arguments,
epochs of a loader, autocast. Runs under a plan (TRIMTAB_TARGET_CONFIG) or without one.

    plain_job.py RENDEZVOUS OUT        RANK and WORLD_SIZE in the environment, or neither of them
"""
import json
import os
import sys

import torch
import torch.distributed as distributed

import trimtab.parallel

SAMPLES, EPOCHS = 20, 2  # of 20 samples in batches of 8 the last batch has 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(2))
        self.unused = torch.nn.Linear(3, 3)  # DDP stops at it without find_unused_parameters
        self.head = torch.nn.Linear(6, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def dataset():
    x = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(5))
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def groups(model):
    """Weight decay for matrices alone, as most scripts have it."""
    named = list(model.parameters())
    return [{"params": [p for p in named if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in named if p.dim() == 1], "weight_decay": 0.0}]


def loss_of(model, part):
    with torch.autocast("cpu", enabled=bool(os.environ.get("AUTOCAST"))):
        return torch.nn.functional.mse_loss(model(part[0]).float(), part[1])


def main():
    rendezvous, out = sys.argv[1:]
    torch.set_num_threads(1)
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if "RANK" in os.environ:
        distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=ranks)
    torch.manual_seed(3)
    plain = Model()
    run = trimtab.parallel.load(batch_size=4 // ranks, gradient_accumulation_steps=2)
    model = run.wrap(plain, plain.layers, find_unused_parameters=True, gradient_as_bucket_view=True)
    optimizer = run.optimizer(model, torch.optim.AdamW, groups, lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    mine = torch.utils.data.Subset(dataset(), range(rank, SAMPLES, ranks))
    loader = torch.utils.data.DataLoader(mine, batch_size=run.configuration.samples_per_rank)
    losses = []
    for _ in run.epochs(0, EPOCHS):
        for batch in run.batches(loader):
            losses.append(run.step(model, optimizer, batch, loss_of, clip_norm=1.0))
        schedule.step()
    with open(out, "w", encoding="utf-8") as file:
        state = run.module(model).state_dict()
        json.dump({"losses": losses, "steps": run.next_step, "weights": [v for t in state.values() for v in t.flatten().tolist()],
                   "kind": type(model).__name__, "optimizer": type(optimizer).__name__, "stopped": run.stopped}, file)
    if distributed.is_initialized():
        distributed.barrier()
    os._exit(0)  # as in ddp_job.py


if __name__ == "__main__":
    main()
