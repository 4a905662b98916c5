"""A plain PyTorch job on CPU ranks, with at most one fault planted in it. It knows nothing of Trimtab.

    torchrun --nproc_per_node 2 job.py --fault slow_rank --seconds 12
    ranks.py 3 -- /usr/bin/python3 job.py --model conv

Faults: slow_rank (one rank takes 15 % longer for its own work), slow_data (the loader takes 20 % of a step),
small_microbatch (microbatches of one sample, 16 a step), everything_recomputed (each layer is computed again in the
backward pass), healthy. A slow link is planted by who gives the ranks their network.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import models

FAULTS = ("healthy", "slow_rank", "slow_data", "small_microbatch", "everything_recomputed")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS, default="healthy")
    parser.add_argument("--share", type=float, default=None, help="how large it is: 0.15 of a rank, 0.2 of a step")
    parser.add_argument("--how", choices=("work", "sleep"), default="work", help="what the time goes into")
    parser.add_argument("--faulty-rank", type=int, default=-1, help="the slow one (default: the last)")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--steps", type=int, default=10**9, help="at most so many")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", choices=("gpt", "mlp", "conv"), default="gpt")
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16, help="samples of a rank in a step")
    parser.add_argument("--microbatch", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--no-sync", action="store_true", help="reduce once a step where gradients are accumulated")
    parser.add_argument("--reduce", choices=("ddp", "hand"), default="ddp")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", default="", help="rank 0 writes its step times there, in milliseconds")
    return parser.parse_args()


class Examples(Dataset):
    """Made up, the same ones in every run. `seconds_each` is what a sample takes to load beyond that."""

    def __init__(self, options):
        self.options = options
        self.seconds_each = 0.0

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.seconds_each > 0:
            spend(self.seconds_each, self.options.how)
        generator = torch.Generator().manual_seed(index)
        if self.options.model == "gpt":
            text = torch.randint(256, (self.options.length + 1,), generator=generator)
            return text[:-1], text[1:]
        shape = (3, 16, 16) if self.options.model == "conv" else (64,)
        return torch.randn(shape, generator=generator), index % 10


def spend(seconds, how):
    """Sleeps so long, or computes for so much of this thread's CPU time."""
    if how == "sleep":
        return time.sleep(seconds)
    end = time.thread_time() + seconds
    some = torch.randn(32, 32)
    while time.thread_time() < end:
        some = (some @ some).clamp(-1, 1)
    return None


def model_of(options):
    recompute = options.fault == "everything_recomputed"
    if options.model == "gpt":
        return models.gpt(options.width or 128, options.layers or 4, options.length, recompute)
    if options.model == "conv":
        return models.conv(options.width or 32, options.layers or 4, recompute)
    return models.mlp(options.width or 512, options.layers or 6, recompute)


def loss_of(output, target):
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


class Slower(nn.Module):
    """The model of a rank whose own work takes longer by a share, its optimizer's included."""

    def __init__(self, model, options):
        super().__init__()
        self.model = model
        self.options = options
        self.longer = 0.0  # seconds a forward pass

    def forward(self, x):
        if self.longer > 0:
            spend(self.longer, self.options.how)
        return self.model(x)


def reduce_by_hand(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def timed_alone(model, options, microbatch):
    """Seconds that a forward and a backward pass take this rank by itself, their median of seven, once it is warm."""
    batch = [Examples(options)[i] for i in range(microbatch)]
    inputs = torch.stack([one[0] for one in batch])
    targets = torch.stack([torch.as_tensor(one[1]) for one in batch])
    times = []
    for _ in range(12):
        begin = time.perf_counter()
        loss_of(model(inputs), targets).backward()
        times.append(time.perf_counter() - begin)
        model.zero_grad()
    return sorted(times[5:])[3]


def train(options):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    microbatch = options.microbatch or (1 if options.fault == "small_microbatch" else options.batch)
    accumulation = max(1, options.batch // microbatch)
    plain = model_of(options)
    slow = options.fault == "slow_rank" and rank == (options.faulty_rank if options.faulty_rank >= 0 else ranks - 1)
    if slow:
        plain = Slower(plain, options)
    model = DistributedDataParallel(plain) if options.reduce == "ddp" else plain
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    examples = Examples(options)
    dist.barrier()
    alone = timed_alone(plain, options, microbatch)
    share = options.share or 0.2
    if options.fault == "slow_data" and options.workers > 0:
        # They load while the ranks compute: what is waited for is what they are slower.
        examples.seconds_each = options.workers / (1 - share) * alone / microbatch
    batches = iter(DataLoader(examples, batch_size=microbatch, num_workers=options.workers))
    times, own = [], []
    begin = last = time.perf_counter()
    worked = time.thread_time()
    # All ranks end after the same step: rank 0 says when.
    while True:
        for pass_number in range(accumulation):
            inputs, targets = next(batches)
            if options.no_sync and pass_number + 1 < accumulation and options.reduce == "ddp":
                with model.no_sync():
                    (loss_of(model(inputs), targets) / accumulation).backward()
            else:
                (loss_of(model(inputs), targets) / accumulation).backward()
        if options.reduce == "hand":
            reduce_by_hand(model)
        optimizer.step()
        optimizer.zero_grad()
        now = time.perf_counter()
        own.append(time.thread_time() - worked)
        worked += own[-1]
        if slow and len(own) == 5:  # What its steps cost its own thread so far, beside the other ranks.
            plain.longer = (options.share or 0.15) * sorted(own)[2] / accumulation
        times.append((now - last) * 1e3)
        last = now
        if options.fault == "slow_data" and options.workers == 0 and len(times) == 8:  # Of the whole step, waiting included.
            examples.seconds_each = share / (1 - share) * sorted(times[3:])[2] / 1e3 / (accumulation * microbatch)
        if len(times) % 10 == 0 or len(times) >= options.steps:
            over = torch.tensor([int(now - begin > options.seconds or len(times) >= options.steps)])
            dist.broadcast(over, 0)
            if over.item():
                break
    if rank == 0:
        print(f"{len(times)} steps, median {sorted(times)[len(times) // 2]:.2f} ms", flush=True)
        if options.log:
            with open(options.log, "w", encoding="utf-8") as file:
                file.writelines(f"{one:.4f}\n" for one in times)


def main(options):
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(arguments())
