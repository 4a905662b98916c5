"""Shards a model over its ranks with fully_shard, in bfloat16 and with activation checkpointing, with --compile each block compiled.
torchrun --nproc-per-node 2 fsdp2.py [--compile BACKEND]"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

WIDTH, LAYERS = 256, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", metavar="BACKEND")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        if options.compile:
            block.compile(backend=options.compile)
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began = time.perf_counter()
        for _ in range(30):
            inputs, targets = torch.randn(64, WIDTH), torch.randint(0, 10, (64,))
            loss = nn.functional.cross_entropy(model(inputs).float(), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            log.write(json.dumps({"loss": loss.item(), "ms": 1000 * (now - began)}) + "\n")
            began = now
    dist.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
