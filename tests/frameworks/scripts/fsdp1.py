"""Shards a small language model over its ranks with FullyShardedDataParallel, accumulating two microbatches a step.
torchrun --nproc-per-node 2 fsdp1.py"""
import contextlib
import functools
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

VOCABULARY, LENGTH, WIDTH, LAYERS, ACCUMULATION = 256, 64, 128, 3, 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randint(0, VOCABULARY, (960, LENGTH + 1)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
    model = FullyShardedDataParallel(Model(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began, losses = time.perf_counter(), []
        for number, (batch,) in enumerate(loader, 1):
            last = number % ACCUMULATION == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
                (loss / ACCUMULATION).backward()
            losses.append(loss.item())
            if last:
                norm = model.clip_grad_norm_(1.0)
                optimizer.step()
                optimizer.zero_grad()
                now = time.perf_counter()
                log.write(json.dumps({"loss": sum(losses) / ACCUMULATION, "norm": norm.item(), "ms": 1000 * (now - began)}) + "\n")
                began, losses = now, []
    dist.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
