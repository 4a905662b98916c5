"""Trains a model under torch.compile. Its forward pass has one graph break, and the last batch is shorter, so it compiles again."""
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU())
        self.last = nn.Linear(1024, 10)

    def forward(self, x):
        x = self.first(x)
        if x.sum().item() > 1e9:
            x = x / 2
        return self.last(x)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Model()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = TensorDataset(torch.randn(1000, 256), torch.randint(0, 10, (1000,)))
    with open("log-0.jsonl", "w", encoding="utf-8") as log:
        began = time.perf_counter()
        for _ in range(5):
            for inputs, targets in DataLoader(data, batch_size=64, shuffle=True):
                loss = nn.functional.cross_entropy(compiled(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                now = time.perf_counter()
                log.write(json.dumps({"loss": loss.item(), "ms": 1000 * (now - began)}) + "\n")
                began = now
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
