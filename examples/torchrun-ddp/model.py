"""A small residual network, and its layers as Trimtab counts them."""
import torch
from torch import nn

FEATURES, WIDTH, LAYERS, CLASSES = 64, 192, 4, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                   nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.inner(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def layers():
    """For `trimtab model extract --module` and trimtab.module_benchmark: the operators in order, and one sample."""
    torch.manual_seed(1)
    model = Model()
    named = [("first", "embedding", model.first)]
    named += [(f"layer{i}", "block", layer) for i, layer in enumerate(model.layers)]
    return [*named, ("head", "head", model.head)], torch.zeros(1, FEATURES)
