"""A small residual network, and its layers as Trimtab counts them."""
import torch

WIDTH, LAYERS = 32, 3


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.inner(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def layers():
    model = Model()
    return [*((f"layer{i}", "block", layer) for i, layer in enumerate(model.layers)), ("head", "head", model.head)], torch.zeros(1, WIDTH)
