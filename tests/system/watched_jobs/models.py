"""Small models of three kinds, each a stack of layers that can be recomputed in the backward pass."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """A layer of a decoder: attention that looks back, and two products."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
        x = x + self.output(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.second_norm(x))))


class Stack(nn.Module):
    def __init__(self, first, layers, last, recompute):
        super().__init__()
        self.first = first
        self.layers = nn.ModuleList(layers)
        self.last = last
        self.recompute = recompute

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = checkpoint(layer, x) if self.recompute and self.training else layer(x)
        return self.last(x)


class Tokens(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


def gpt(width, layers, length, recompute, words=256):
    return Stack(Tokens(words, length, width), [Attention(width, 4) for _ in range(layers)],
                 nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words)), recompute)


def mlp(width, layers, recompute):
    middle = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    return Stack(nn.Linear(64, width), middle, nn.Linear(width, 10), recompute)


def conv(width, layers, recompute):
    middle = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
              for _ in range(layers)]
    return Stack(nn.Conv2d(3, width, 3, padding=1), middle,
                 nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)), recompute)
