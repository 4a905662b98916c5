"""The program that trains as an exported plan says, by trimtab.parallel, beside the same model in one plain process."""
import os
import sys

import torch
from torch import nn
from torch.nn import functional

LAYERS, SEQUENCE, LEARNING_RATE = 4, 128, 1e-4
# Large enough that states are most of the memory; where there is no GPU it only has to be right.
WIDTH = int(os.environ.get("GPU_CHECK_WIDTH", 1024))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, max(1, WIDTH // 64), 4 * WIDTH, dropout=0.0, batch_first=True,
                                                norm_first=True)

    def forward(self, x):
        return self.layer(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def layers():
    """For trimtab.module_model: the operators in order, and one sample."""
    torch.manual_seed(1)
    return [(f"layer{number}", "block", layer) for number, layer in enumerate(Model().layers)], torch.zeros(1, SEQUENCE, WIDTH)


def batch_of(step, samples, device):
    """Of the whole job: the same whatever the plan is."""
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.randn(samples, SEQUENCE, WIDTH, generator=generator).to(device)


def loss_of(model, part):
    return functional.mse_loss(model(part), part.roll(1, dims=1))


def join(settings):
    """The process group of the settings' rank and world size, and this rank's device: ranks of this check share the first
    GPU."""
    device, size = settings.get("device", "cuda"), settings.get("world_size", 1)
    if device == "cuda":
        torch.cuda.set_device(0)
    store = torch.distributed.FileStore(settings["store"], size) if size > 1 else torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=settings.get("rank", 0),
                                         world_size=size)
    return torch.device(device)


def seeded_model(device):
    torch.manual_seed(1)
    return Model().to(device)


def mark(device):
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device):
    """What PyTorch handed out at most since the mark; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def plain(configuration, steps, device):
    """(losses, peak) of one process without any wrapper, in the plan's microbatches."""
    mark(device)
    model = seeded_model(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    parts, losses = configuration.accumulation_steps, []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for part in batch_of(step, configuration.global_batch, device).chunk(parts):
            loss = loss_of(model, part) / parts
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses, peak_bytes(device)


def wrapped(run, settings, device):
    """(losses, peak, the strategy that the wrapper says it runs) as the plan says."""
    mark(device)
    unwrapped = seeded_model(device)
    model = run.wrap(unwrapped, unwrapped.layers)
    optimizer = run.optimizer(model, torch.optim.AdamW, lr=LEARNING_RATE)
    share, rank, losses = run.configuration.samples_per_rank, settings["rank"], []
    for step in run.steps(0, settings["steps"]):
        batch = batch_of(step, run.configuration.global_batch, device)[rank * share : (rank + 1) * share]
        losses.append(run.step(model, optimizer, batch, loss_of))
    strategy = getattr(model, "sharding_strategy", None)
    return losses, peak_bytes(device), getattr(strategy, "name", type(model).__name__)


def planned(settings):
    """Steps under the plan, and the same steps plain."""
    sys.path.insert(0, settings["client"])
    import trimtab.parallel

    device = join(settings)
    run = trimtab.parallel.load(settings["configuration"])
    plain_losses, plain_peak = plain(run.configuration, settings["steps"], device)
    losses, peak, strategy = wrapped(run, settings, device)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return {"losses": losses, "plain_losses": plain_losses, "peak_bytes": peak, "plain_peak_bytes": plain_peak,
            "asked": run.configuration.sharding_strategy or run.configuration.kind, "strategy": strategy}
