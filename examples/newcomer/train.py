"""A stranger's training script: nothing in it knows of Trimtab. torchrun --nproc-per-node 2 train.py

A small transformer learns to add digits. One mistake of real jobs can be planted: --loader-ms lets each batch wait for its data.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LENGTH, WIDTH, LAYERS = 32, 64, 128, 4


class Sums(Dataset):
    def __init__(self, samples, milliseconds):
        self.samples, self.milliseconds = samples, milliseconds

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        time.sleep(self.milliseconds / 1e3)
        generator = torch.Generator().manual_seed(index)
        digits = torch.randint(0, 10, (LENGTH,), generator=generator)
        return digits, digits.cumsum(0) % VOCABULARY


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--loader-ms", type=float, default=0.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    samples = given.steps * given.accumulate * given.batch_size
    loader = DataLoader(Sums(samples, given.loader_ms), batch_size=given.batch_size)
    begin = time.perf_counter()
    for number, (tokens, targets) in enumerate(loader, start=1):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        (loss / given.accumulate).backward()
        if number % given.accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad()
        step, now = number // given.accumulate, time.perf_counter()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}, {(now - begin) / 20 * 1e3:.0f} ms a step", flush=True)
        if step % 20 == 0:
            begin = now
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
