"""A rank of a small DDP job, for test_ddp.py: trains some steps under a configuration and tells what it did.

    ddp_job.py CONFIGURATION RANK WORLD_SIZE RENDEZVOUS STEPS OUT [--stop-at STEP]
"""
import argparse
import datetime
import json
import os
import signal

import torch
import torch.distributed as distributed

import trimtab.parallel

WIDTH = 128  # a layer of 1 MiB: PyTorch's first bucket, whatever its cap, is of that size


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8 * WIDTH), torch.nn.GELU(), torch.nn.Linear(8 * WIDTH, WIDTH))
        self.passes = 0
        self.sizes = set()

    def forward(self, x):
        self.passes += 1
        self.sizes.add(x.shape[0])
        return x + self.inner(x)


class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first = torch.nn.Linear(8, WIDTH)
        self.layers = torch.nn.ModuleList(Block() for _ in range(layers))
        self.last = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def batch_of(step, samples, first):
    """This rank's samples of the step: the same whatever the microbatches are."""
    generator = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(64, 8, generator=generator)[first : first + samples]
    return {"x": x, "y": x.sum(1, keepdim=True)}


def loss_of(model, part):
    return torch.nn.functional.mse_loss(model(part["x"]), part["y"])


def main():
    parser = argparse.ArgumentParser()
    for name in ("configuration", "rank", "world_size", "rendezvous", "steps", "out"):
        parser.add_argument(name)
    parser.add_argument("--stop-at", type=int, default=-1)
    given = parser.parse_args()
    rank, world = int(given.rank), int(given.world_size)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=given.rendezvous, rank=rank, world_size=world,
                                   timeout=datetime.timedelta(seconds=100))
    torch.manual_seed(3)
    plain = Model(4)

    run = trimtab.parallel.load(given.configuration)
    model = run.wrap(plain, plain.layers)
    optimizer = run.optimizer(model, torch.optim.AdamW, lr=1e-3)
    losses, count = [], run.configuration.samples_per_rank
    for step in run.steps(0, int(given.steps)):
        if step == given.stop_at and rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        losses.append(run.step(model, optimizer, batch_of(step, count, rank * count), loss_of))

    logged = model._get_ddp_logging_data()
    state = optimizer.optim.state if run.configuration.zero_redundancy_optimizer else optimizer.state
    with open(given.out, "w", encoding="utf-8") as file:
        json.dump({"losses": losses, "stopped": run.stopped,
                   "passes": [block.passes for block in plain.layers],
                   "microbatch": sorted(plain.layers[0].sizes),
                   "buckets": len(str(logged["rebuilt_bucket_sizes"]).split(",")),
                   "bucket_cap_bytes": logged["bucket_cap_bytes"],
                   "optimizer_states": sum(entry["exp_avg"].numel() for entry in state.values()),
                   "parameters": sum(parameter.numel() for parameter in plain.parameters())}, file)
    distributed.barrier()  # nobody leaves while another still waits for it
    distributed.destroy_process_group()
    # No destructors: PyTorch 1.13's DistributedDataParallel, freed, joins a thread of Gloo that waits for the interpreter's lock.
    os._exit(0)


if __name__ == "__main__":
    main()
