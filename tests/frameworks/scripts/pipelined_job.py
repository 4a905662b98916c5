"""A user's job whose pipeline is trimtab.pipelining's: a checkpoint each 20 steps, no handler for SIGTERM. Its log says what it trained."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage

import trimtab.pipelining

WIDTH, DEPTH, BATCH, NAP = 128, 6, 32, 0.003


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        time.sleep(NAP)  # What small microbatches make slow; the same on every machine.
        return x + self.inner(x)


def layers():
    """For trimtab.module_model and trimtab.module_benchmark."""
    return [(f"layer{number}", "mlp", number, Layer()) for number in range(DEPTH)], torch.zeros(1, WIDTH)


def save(folder, steps, optimizer, names):
    """Of all ranks, by the parameters' names in the whole model: any plan can begin with it."""
    mine = {names[parameter]: (parameter.detach(), optimizer.state[parameter]) for parameter in optimizer.param_groups[0]["params"]}
    everyone = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, everyone)
    if everyone:
        os.makedirs(folder, exist_ok=True)
        whole = {name: value for one in everyone for name, value in one.items()}
        torch.save({"steps": steps, "parameters": whole}, os.path.join(folder, "last.pt.new"))
        os.replace(os.path.join(folder, "last.pt.new"), os.path.join(folder, "last.pt"))
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--microbatches", type=int, default=BATCH)
    parser.add_argument("--log", required=True)
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = nn.ModuleList(module for _, _, _, module in layers()[0])
    names = {parameter: name for name, parameter in model.named_parameters()}
    saved = os.path.join(given.checkpoint, "last.pt")
    state = torch.load(saved, weights_only=True) if os.path.exists(saved) else {"steps": 0, "parameters": {}}

    run = trimtab.pipelining.load(layers=DEPTH, n_microbatches=given.microbatches, batch_size=BATCH)
    mesh = run.mesh("cpu")
    stages = [PipelineStage(nn.Sequential(*part.layers), part.index, run.num_stages, torch.device("cpu"), group=mesh.get_group("pp"))
              for part in run.parts(model)]
    schedule = run.schedule(stages, loss_fn=nn.functional.mse_loss)

    mine = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.AdamW(mine, lr=1e-3)
    for parameter in mine if state["parameters"] else ():
        value, optimizer.state[parameter] = state["parameters"][names[parameter]]
        parameter.data.copy_(value)
    share = run.configuration.batch_size
    for step in range(state["steps"], given.steps):
        begun = time.monotonic()
        whole = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
        x = whole[mesh.get_local_rank("dp") * share:][:share]
        losses = []
        optimizer.zero_grad()
        schedule.step(*[x] * stages[0].is_first, **({"target": x.sin(), "losses": losses} if stages[-1].is_last else {}))
        run.reduce(stages)
        optimizer.step()
        if losses and mesh.get_local_rank("dp") == 0:
            with open(given.log, "a", encoding="utf-8") as log:
                log.write(f"{step} {sum(loss.item() for loss in losses) / len(losses):.6f} {run.configuration.n_microbatches} {mesh.size(1)} "
                          f"{time.monotonic() - begun:.4f} {given.checkpoint}\n")
        if (step + 1) % 20 == 0 or step + 1 == given.steps:
            save(given.checkpoint, step + 1, optimizer, names)
    dist.destroy_process_group()
    os._exit(0)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
