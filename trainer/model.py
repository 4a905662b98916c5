"""The GPT as an ordered list of operators: the unit that plans cut at, and that benchmarks time.

Each operator is a module from one tensor to one tensor. It knows nothing of stages, ranks or microbatches; the
`Pass` it is given says which samples stand in the batch. Parameters depend only on (seed, operator index), so every
plan starts from the same model.
"""
import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional

from config import ModelConfig
from data import derived_seed


@dataclasses.dataclass(frozen=True)
class OperatorSpec:
    index: int
    name: str
    kind: str  # embedding | attention | feedforward | head
    layer: int
    cost_key: str


@dataclasses.dataclass
class Pass:
    """What an operator may know of the batch it is given."""

    step: int
    sample_ids: list
    targets: torch.Tensor = None  # Only the head needs them.


def operator_specs(config):
    """All operators, in order."""
    shape = f"h{config.hidden}-t{config.sequence}"
    if config.dropout:
        shape += f"-d{config.dropout:g}"
    specs = [("embedding", "embedding", 0, f"embedding-v{config.vocabulary}-{shape}")]
    for layer in range(config.layers):
        specs.append((f"layer{layer}-attention", "attention", layer, f"attention-a{config.heads}-{shape}"))
        specs.append((f"layer{layer}-feedforward", "feedforward", layer, f"feedforward-{shape}"))
    specs.append(("head", "head", config.layers - 1, f"head-v{config.vocabulary}-{shape}"))
    return [OperatorSpec(index, *fields) for index, fields in enumerate(specs)]


def dropout(x, probability, run, *, seed, site, training=True):
    """Dropout whose mask is a function of (seed, site, step, sample).

    So a recomputed forward, another split of the batch and a resumed run all see the same mask, and no generator
    state has to be saved or moved.
    """
    if not probability or not training:
        return x
    keep = torch.empty_like(x)
    generator = torch.Generator(device=x.device)
    for row, sample in enumerate(run.sample_ids):
        generator.manual_seed(derived_seed(seed, 2, site, run.step, sample))
        keep[row].bernoulli_(1.0 - probability, generator=generator)
    return x * keep.div_(1.0 - probability)


class Operator(nn.Module):
    def __init__(self, spec, config):
        super().__init__()
        self.spec = spec
        self.config = config

    def _dropout(self, x, run):
        return dropout(x, self.config.dropout, run, seed=self.config.seed, site=self.spec.index)


class Embedding(Operator):
    def __init__(self, spec, config):
        super().__init__(spec, config)
        self.token = nn.Parameter(torch.empty(config.vocabulary, config.hidden))
        self.position = nn.Parameter(torch.empty(config.sequence, config.hidden))

    def forward(self, tokens, run):
        return self._dropout(functional.embedding(tokens, self.token) + self.position, run)


class Attention(Operator):
    def __init__(self, spec, config):
        super().__init__(spec, config)
        hidden = config.hidden
        self.norm = nn.LayerNorm(hidden)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        future = torch.full((config.sequence, config.sequence), float("-inf")).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x, run):
        batch, sequence, hidden = x.shape
        heads = self.config.heads
        joint = self.query_key_value(self.norm(x)).view(batch, sequence, 3, heads, hidden // heads)
        query, key, value = joint.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(hidden // heads)) + self.future
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, sequence, hidden)
        return x + self._dropout(self.output(mixed), run)


class FeedForward(Operator):
    def __init__(self, spec, config):
        super().__init__(spec, config)
        self.norm = nn.LayerNorm(config.hidden)
        self.inner = nn.Linear(config.hidden, 4 * config.hidden)
        self.outer = nn.Linear(4 * config.hidden, config.hidden)

    def forward(self, x, run):
        return x + self._dropout(self.outer(functional.gelu(self.inner(self.norm(x)))), run)


class Head(Operator):
    """Final norm, projection on the vocabulary and loss: this batch's share of the global batch's mean loss."""

    def __init__(self, spec, config):
        super().__init__(spec, config)
        self.norm = nn.LayerNorm(config.hidden)
        self.projection = nn.Parameter(torch.empty(config.vocabulary, config.hidden))

    def forward(self, x, run):
        logits = functional.linear(self.norm(x), self.projection)
        total = functional.cross_entropy(logits.flatten(0, 1), run.targets.flatten(), reduction="sum")
        return total / (self.config.sequence * self.config.global_batch)


_KINDS = {"embedding": Embedding, "attention": Attention, "feedforward": FeedForward, "head": Head}


def build(spec, config, initialise=True):
    """The operator's module; `initialise` false where the caller supplies the parameters' values."""
    module = _KINDS[spec.kind](spec, config)
    if not initialise:
        return module
    generator = torch.Generator().manual_seed(derived_seed(config.seed, 3, spec.index))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif name.startswith("norm"):
                parameter.fill_(1.0)
            else:
                narrow = name.startswith("output") or name.startswith("outer")
                scale = 0.02 / math.sqrt(2 * config.layers) if narrow else 0.02
                parameter.normal_(0.0, scale, generator=generator)
    return module


def parameter_count(spec, config):
    """Elements of the operator's parameters, without building it."""
    hidden = config.hidden
    return {
        "embedding": (config.vocabulary + config.sequence) * hidden,
        "attention": 4 * hidden * hidden + 6 * hidden,
        "feedforward": 8 * hidden * hidden + 7 * hidden,
        "head": config.vocabulary * hidden + 2 * hidden,
    }[spec.kind]


def warm_up(device):
    """One tiny pass through every operator kind, so that the libraries' own memory is resident and is not a plan's."""
    config = ModelConfig("warm-up", layers=1, hidden=8, heads=2, sequence=8, vocabulary=16, global_batch=1)
    tokens = torch.zeros(1, config.sequence, dtype=torch.int64, device=device)
    x = tokens
    for spec in operator_specs(config):
        x = build(spec, config).to(device)(x, Pass(0, [0], tokens))
    x.backward()
