"""Ranks of trimtab.parallel under each file of a folder, one after another: `torchrun ... sharded_ranks.py FOLDER` prints on rank 0 a line for
each, {"file": ..., "losses": [...], "norms": [...], "shard": ..., "replicas": ...}. A file of no ranks is none: its name says the kind. Of a
list the first plan is begun with, the others are taken as the ranks train, before the steps 3, 5, ...; `configurations` are those of the steps."""
import dataclasses
import json
import os
import pathlib
import sys

import torch
import torch.distributed as distributed
from torch import nn

import trimtab.parallel

STEPS = 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)) for _ in range(3))
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def loss_of(model, part):
    return nn.functional.mse_loss(model(part[0]), part[1])


def share(batch, rank, ranks):
    x = torch.randn(batch, 8, generator=torch.Generator().manual_seed(7))
    return [tensor[rank::ranks] for tensor in (x, x.sin().sum(1, keepdim=True))]


def placed(model):
    """Ranks that a layer is sharded over, and replicas of it; 1 and 1: it is whole."""
    parameter = next(model.layers[0].parameters())
    sizes = dict(zip(parameter.device_mesh.mesh_dim_names or ("shard",), parameter.device_mesh.shape)) if hasattr(parameter, "device_mesh") else {}
    return {"shard": sizes.get("shard", 1), "replicas": sizes.get("replicate", 1)}


def hear(run, epoch, plan, rank):
    """What an agent says. The last rank hears of the commitment a step later than the others."""
    step = run.next_step + 1 + (rank + 1 == distributed.get_world_size())
    run._client._inbox += [{"type": "plan_propose", "epoch": epoch, "plan": {}, "target_config": plan},
                           {"type": "plan_commit", "epoch": epoch, "step": step}]


def trained(path, rank, ranks):
    said = json.loads(path.read_text(encoding="utf-8"))
    plans = said if isinstance(said, list) else [said]
    batch, kind = plans[0].get("global_batch"), path.stem.split("-")[0]
    if plans is said:
        run = trimtab.parallel.Run(trimtab.parallel.parse(json.dumps(said[0]), path.name))
    elif batch:
        run = trimtab.parallel.load(str(path))
    else:
        run = trimtab.parallel.load(kind=kind, batch_size=2, gradient_accumulation_steps=2)
    torch.manual_seed(1)
    model = Model()
    own = {"device_id": torch.device("cpu")} if kind == "fsdp" else {}  # FSDP1 trains without a GPU where it is told to
    wrapped = run.wrap(model, model.layers, **own)
    optimizer = run.optimizer(wrapped, torch.optim.AdamW, lr=1e-2)
    told = {"file": path.name, "losses": [], "norms": [], "configurations": [], **placed(model)}
    run._client.step = lambda *_, gradient_norm=None, **named: told["norms"].append(gradient_norm)
    for step in run.steps(0, STEPS):
        if step % 2 and step // 2 + 1 < len(plans):
            hear(run, step, plans[step // 2 + 1], rank)
        told["configurations"].append(dataclasses.asdict(run.configuration))
        told["losses"].append(run.step(wrapped, optimizer, share(batch or 4 * ranks, rank, ranks), loss_of, clip_norm=1.0))
    return told


def main():
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        told = trained(path, rank, ranks)
        if rank == 0:
            print(json.dumps(told), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    os._exit(0)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


main()
