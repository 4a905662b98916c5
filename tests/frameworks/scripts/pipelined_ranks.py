"""Ranks of trimtab.pipelining under each file of a folder, one after another: `torchrun ... pipelined_ranks.py FOLDER`. Of each a rank that has
the last stage prints {"file": ..., "losses": [...], "schedule": ..., "stages": ...}; of a file "plain" it prints what one process trains, and an
empty one is no plan. What PyTorch's pipeline() makes of the same splits is "traced"."""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as distributed
from torch import nn
from torch.distributed.pipelining import PipelineStage, pipeline

import trimtab.pipelining

LAYERS, BATCH, STEPS = 8, 16, 3


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        return x + self.inner(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def samples():
    x = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(7))
    return x, x.sin().sum(1, keepdim=True)


def part_of(model, part):
    return nn.Sequential(*[model.first] * part.is_first, *part.layers, *[model.last] * part.is_last)


def plain(model):
    optimizer, (x, y) = torch.optim.AdamW(model.parameters(), lr=1e-2), samples()
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def trained(run, model):
    """What is told of it, on the ranks that know the loss."""
    mesh = run.mesh("cpu")
    pipelines, replicas = mesh.get_group("pp"), mesh.get_group("dp")
    stages = [PipelineStage(part_of(model, part), part.index, run.num_stages, torch.device("cpu"), group=pipelines)
              for part in run.parts(model.layers)]
    schedule = run.schedule(stages, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW([parameter for stage in stages for parameter in stage.submod.parameters()], lr=1e-2)
    share = run.configuration.batch_size
    x, y = (tensor[mesh.get_local_rank("dp") * share:][:share] for tensor in samples())
    told = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses = []
        schedule.step(*[x] * stages[0].is_first, **({"target": y, "losses": losses} if stages[-1].is_last else {}))
        run.reduce(stages)
        optimizer.step()
        if losses:
            loss = torch.stack(losses).mean().detach()
            distributed.all_reduce(loss, group=replicas)
            told.append(loss.item() / mesh.size(1))
    if told and mesh.get_local_rank("dp") == 0:
        yield {"losses": told, "schedule": type(schedule).__name__, "stages": run.num_stages, "pipelines": mesh.size(1)}


def answers(path):
    torch.manual_seed(1)
    model = Model()
    if path.stem == "plain":
        if distributed.get_rank() == 0:
            yield {"losses": list(plain(model))}
        return
    planned = path.stat().st_size > 0
    run = trimtab.pipelining.load(str(path) if planned else None, layers=LAYERS, n_microbatches=8, batch_size=BATCH)
    if path.stem == "traced":
        if distributed.get_rank() == 0:
            pipe = pipeline(model, mb_args=(samples()[0],), split_spec=run.split_spec("layers.{}"))
            names = [name for stage in range(pipe.num_stages) for name, _ in pipe.get_stage_module(stage).named_parameters()]
            yield {"stages": pipe.num_stages, "layers": [sum(name.startswith("layers.") and name.endswith(".inner.0.bias") for name, _ in
                                                             pipe.get_stage_module(stage).named_parameters()) for stage in range(pipe.num_stages)],
                   "whole": sorted(names) == sorted(name for name, _ in model.named_parameters())}
        return
    yield from trained(run, model)


def main():
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        for told in answers(path):
            print(json.dumps({"file": path.stem, **told}), flush=True)
        distributed.barrier()
    distributed.destroy_process_group()
    os._exit(0)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


main()
