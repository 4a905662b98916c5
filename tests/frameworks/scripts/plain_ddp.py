"""A small language model on Shakespeare-like noise with DistributedDataParallel. torchrun --nproc-per-node 2 plain_ddp.py"""
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

VOCABULARY, LENGTH, WIDTH, LAYERS = 256, 64, 128, 3


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
    data = TensorDataset(torch.randint(0, VOCABULARY, (640, LENGTH + 1)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with open(f"log-{rank}.jsonl", "w", encoding="utf-8") as log:
        began = time.perf_counter()
        for (batch,) in loader:
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            log.write(json.dumps({"loss": loss.item(), "ms": 1000 * (now - began)}) + "\n")
            began = now
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
    dist.destroy_process_group()
    time.sleep(0.2)  # A thread of Gloo that frees a tensor as Python ends aborts the process.


if __name__ == "__main__":
    main()
