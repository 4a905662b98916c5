"""A GPT as Megatron-LM builds one, in PyTorch alone: the referee of parameter bytes counted from arguments."""
import torch
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        channels = shape["channels"]
        self.norm = norm(shape, shape["hidden"])
        mixed = (shape["heads"] + 2 * shape["groups"]) * channels
        self.qkv = nn.Linear(shape["hidden"], mixed, bias=shape["qkv_bias"])
        self.out = nn.Linear(shape["heads"] * channels, shape["hidden"], bias=shape["bias"])
        self.norms = nn.ModuleList(norm(shape, channels) for _ in range(2 if shape["query_norm"] else 0))

    def forward(self, x):
        heads, groups, channels = self.shape["heads"], self.shape["groups"], self.shape["channels"]
        batch, rows, _ = x.shape
        mixed = self.qkv(self.norm(x))
        q, k, v = mixed.split([heads * channels, groups * channels, groups * channels], -1)
        q = q.view(batch, rows, heads, channels)
        k, v = (part.view(batch, rows, groups, channels).repeat_interleave(heads // groups, 2) for part in (k, v))
        if self.norms:
            q, k = self.norms[0](q), self.norms[1](k)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        scores = torch.softmax(q @ k.transpose(-1, -2) / channels**0.5, -1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(batch, rows, -1))


class Mlp(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gated = shape["gated"]
        self.norm = norm(shape, shape["hidden"])
        self.up = nn.Linear(shape["hidden"], shape["ffn"] * (2 if self.gated else 1), bias=shape["bias"])
        self.down = nn.Linear(shape["ffn"], shape["hidden"], bias=shape["bias"])

    def forward(self, x):
        wide = self.up(self.norm(x))
        if self.gated:
            gate, wide = wide.chunk(2, -1)
            wide = nn.functional.silu(gate) * wide
        else:
            wide = nn.functional.gelu(wide)
        return x + self.down(wide)


class Embedding(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.words = nn.Embedding(shape["vocabulary"], shape["hidden"])
        self.positions = nn.Embedding(shape["positions"], shape["hidden"]) if shape["positions"] else None

    def forward(self, tokens):
        x = self.words(tokens)
        return x if self.positions is None else x + self.positions.weight[: tokens.shape[1]]


class Head(nn.Module):
    def __init__(self, shape, embedding):
        super().__init__()
        self.norm = norm(shape, shape["hidden"])
        self.out = nn.Linear(shape["hidden"], shape["vocabulary"], bias=False)
        if shape["tied"]:
            self.out.weight = embedding.words.weight

    def forward(self, x):
        return self.out(self.norm(x))


def norm(shape, size):
    return RmsNorm(size) if shape["rms"] else nn.LayerNorm(size)


def layers_of(shape):
    """[(name, kind, layer, module)], as trimtab.module_model takes them."""
    embedding = Embedding(shape)
    out = [("embedding", "embedding", 0, embedding)]
    for layer in range(shape["layers"]):
        out.append((f"layer{layer}-attention", "attention", layer, Attention(shape)))
        out.append((f"layer{layer}-mlp", "mlp", layer, Mlp(shape)))
    out.append(("head", "head", shape["layers"] - 1, Head(shape, embedding)))
    return out


SMALL = {"layers": 2, "hidden": 16, "heads": 2, "groups": 2, "channels": 8, "ffn": 64, "vocabulary": 128,
         "positions": 8, "sequence": 8, "bias": True, "qkv_bias": True, "query_norm": False, "gated": False,
         "rms": False, "tied": True}


def small():
    """For `trimtab model extract --module gpt_module:small`."""
    torch.manual_seed(1)
    return layers_of(SMALL), torch.zeros(1, SMALL["sequence"], dtype=torch.long)


def plain_sequence():
    """Modules without names and kinds."""
    given, example = small()
    blocks = [nn.Sequential(given[i][3], given[i + 1][3]) for i in range(1, len(given) - 1, 2)]
    return [given[0][3], *blocks, given[-1][3]], example
