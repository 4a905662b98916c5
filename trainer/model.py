"""The GPT as an ordered list of operators: the unit that plans cut at, and that benchmarks time.

Each operator is a module from one tensor to one tensor. It knows nothing of stages or microbatches, and of ranks only
those that it is split over; the `Pass` it is given says which samples stand in the batch. Initial parameters depend
only on (seed, operator index), so every plan starts from the same model.
"""
import dataclasses
import functools
import math

import torch
from torch import nn
from torch.nn import functional

from data import derived_seed
from tensor_parallel import ALONE, cross_entropy_sum


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
    targets: torch.Tensor = None  # Only the head needs them,
    counted: int = 1  # and how many targets the whole global batch has, padding left out.


def operator_specs(config):
    """All operators, in order."""
    shape = f"h{config.hidden}-t{config.sequence}"
    if config.dropout:
        shape += f"-d{config.dropout:g}"
    if config.precision != "float32":
        shape += f"-{config.precision}"
    specs = [("embedding", "embedding", 0, f"embedding-v{config.vocabulary}-{shape}")]
    for layer in range(config.layers):
        specs.append((f"layer{layer}-attention", "attention", layer, f"attention-a{config.heads}-{shape}"))
        specs.append((f"layer{layer}-feedforward", "feedforward", layer, f"feedforward-{shape}"))
    specs.append(("head", "head", config.layers - 1, f"head-v{config.vocabulary}-{shape}"))
    return [OperatorSpec(index, *fields) for index, fields in enumerate(specs)]


def dropout(x, probability, run, *, seed, site, tokens, sequence):
    """Dropout whose mask is a function of (seed, site, step, sample); `x` has these `tokens` of each sequence's.

    So a recomputed forward, another split of the batch and a resumed run all see the same mask, and no generator
    state has to be saved or moved.
    """
    if not probability:
        return x
    keep, whole = torch.empty(x.shape, device=x.device), torch.empty((sequence, *x.shape[2:]), device=x.device)
    generator = torch.Generator(device=x.device)
    for row, sample in enumerate(run.sample_ids):
        generator.manual_seed(derived_seed(seed, 2, site, run.step, sample))
        keep[row] = whole.bernoulli_(1.0 - probability, generator=generator)[tokens]
    return x * keep.div_(1.0 - probability).to(x.dtype)


@dataclasses.dataclass(frozen=True)
class ParameterSpec:
    name: str
    shape: tuple
    split: bool  # Over tensor-parallel ranks, along the first axis. The others are whole on every rank.

    @property
    def count(self):
        return math.prod(self.shape)

    def local_shape(self, tensor_ranks):
        return (self.shape[0] // tensor_ranks, *self.shape[1:]) if self.split else self.shape


@functools.lru_cache(maxsize=None)
def parameters_of(spec, config):
    """The operator's parameters in their order. The order and the shapes number its elements: a rank's share of each is
    one contiguous piece, so weights that are split along their inputs are stored transposed. What is not split comes first."""
    hidden, heads = config.hidden, config.heads
    norm = (ParameterSpec("norm_weight", (hidden,), False), ParameterSpec("norm_bias", (hidden,), False))
    return {
        "embedding": (ParameterSpec("position", (config.sequence, hidden), False),
                      ParameterSpec("token", (config.vocabulary, hidden), True)),
        "attention": (*norm, ParameterSpec("output_bias", (hidden,), False),
                      ParameterSpec("query_key_value", (heads, 3, hidden // heads, hidden), True),
                      ParameterSpec("query_key_value_bias", (heads, 3, hidden // heads), True),
                      ParameterSpec("output", (heads, hidden // heads, hidden), True)),
        "feedforward": (*norm, ParameterSpec("outer_bias", (hidden,), False),
                        ParameterSpec("inner", (4 * hidden, hidden), True),
                        ParameterSpec("inner_bias", (4 * hidden,), True),
                        ParameterSpec("outer", (4 * hidden, hidden), True)),
        "head": (*norm, ParameterSpec("projection", (config.vocabulary, hidden), True)),
    }[spec.kind]


def parameter_count(spec, config):
    """Elements of the operator's parameters."""
    return sum(parameter.count for parameter in parameters_of(spec, config))


_SPLIT_BY = {"embedding": "vocabulary", "attention": "heads", "feedforward": "hidden", "head": "vocabulary"}


def why_not_split(spec, config, tensor_ranks):
    """Why the operator cannot be split over so many ranks; empty where it can."""
    name = _SPLIT_BY[spec.kind]
    extent = 4 * config.hidden if spec.kind == "feedforward" else getattr(config, name)
    if extent % tensor_ranks == 0:
        return ""
    return f"{spec.name} is split along its {'inner width' if spec.kind == 'feedforward' else name}, {extent}"


class Operator(nn.Module):
    """In three parts, between which tensor-parallel ranks communicate: before() is the same on all ranks, body() is
    this rank's share, whose sum over the ranks goes into after()."""

    def __init__(self, spec, config):
        super().__init__()
        self.spec, self.config = spec, config
        self.tensor = self.context = ALONE  # Until somebody says with whom the operator and its sequences are shared.
        for parameter in parameters_of(spec, config):
            self.register_parameter(parameter.name, nn.Parameter(torch.empty(0)))  # Set by who holds the values.

    summed = True  # Are the shares of body() summed over the ranks?

    def forward(self, x, run):
        share = self.tensor.into(self.before(x), lambda inner: self.body(inner, run))
        return self.after(x, self.tensor.summed(share) if self.summed else share, run)

    @property
    def tokens(self):
        """Of each sequence's, those that this rank has between operators."""
        count = self.config.sequence // (self.context.size * self.tensor.parts)
        first = (self.context.index * self.tensor.parts + self.tensor.part) * count
        return slice(first, first + count)

    def _dropout(self, x, run):
        return dropout(x, self.config.dropout, run, seed=self.config.seed, site=self.spec.index, tokens=self.tokens,
                       sequence=self.config.sequence)

    def _cast(self, parameter):
        """In the precision of the computation; its gradient comes back as float32."""
        return parameter.to(self.config.dtype)

    def before(self, x):
        return functional.layer_norm(x, (self.config.hidden,), self._cast(self.norm_weight), self._cast(self.norm_bias))


class Embedding(Operator):
    def before(self, tokens):
        return tokens

    def body(self, tokens, run):
        if self.tensor.size == 1:
            return self._cast(functional.embedding(tokens, self.token))
        rows = self.token.shape[0]
        local = tokens - self.tensor.index * rows
        elsewhere = (local < 0) | (local >= rows)
        found = functional.embedding(local.masked_fill(elsewhere, 0), self.token)
        return self._cast(found.masked_fill(elsewhere.unsqueeze(-1), 0.0))

    def after(self, tokens, total, run):
        return self._dropout(total + self._cast(self.position[self.tokens]), run)


class Attention(Operator):
    def __init__(self, spec, config):
        super().__init__(spec, config)
        future = torch.full((config.sequence, config.sequence), float("-inf")).triu(1).to(config.dtype)
        self.register_buffer("future", future, persistent=False)

    def body(self, x, run):
        batch, sequence, hidden = x.shape
        heads, _, width, _ = self.query_key_value.shape
        joint = functional.linear(x, self._cast(self.query_key_value).view(-1, hidden),
                                  self._cast(self.query_key_value_bias).view(-1))
        query, *others = joint.view(batch, sequence, heads, 3, width).permute(3, 0, 2, 1, 4)
        if self.context.size == 1:
            mixed = self._attend(query, others)
        else:
            mixed = self.context.together(torch.stack(others), 3, lambda others: self._attend(query, others))
        return mixed.transpose(1, 2).reshape(batch, sequence, heads * width) @ self._cast(self.output).view(-1, hidden)

    def _attend(self, query, others):
        """For the queries of this rank's tokens, with the keys and values of all."""
        key, value = others
        first = self.context.index * query.shape[-2]
        scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.shape[-1]))
        return torch.softmax(scores + self.future[first : first + query.shape[-2]], -1) @ value

    def after(self, x, total, run):
        return x + self._dropout(total + self._cast(self.output_bias), run)


class FeedForward(Operator):
    def body(self, x, run):
        inner = functional.linear(x, self._cast(self.inner), self._cast(self.inner_bias))
        return functional.gelu(inner) @ self._cast(self.outer)

    def after(self, x, total, run):
        return x + self._dropout(total + self._cast(self.outer_bias), run)


class Head(Operator):
    """Final norm, projection on the vocabulary and loss: this batch's share of the global batch's mean loss."""

    summed = False  # Every rank has the whole loss.

    def body(self, x, run):
        logits = functional.linear(x, self._cast(self.projection)).flatten(0, 1)
        return cross_entropy_sum(logits.float(), run.targets.flatten(), self.tensor) / run.counted

    def after(self, x, total, run):
        return total


_KINDS = {"embedding": Embedding, "attention": Attention, "feedforward": FeedForward, "head": Head}


def build(spec, config):
    """The operator's module without values: whoever holds them sets its parameters."""
    return _KINDS[spec.kind](spec, config)


def initial_values(spec, config):
    """The operator's parameters one after the other, each whole: what every plan starts from."""
    generator = torch.Generator().manual_seed(derived_seed(config.seed, 3, spec.index))
    for parameter in parameters_of(spec, config):
        values = torch.zeros(parameter.count)
        if parameter.name == "norm_weight":
            values.fill_(1.0)
        elif not parameter.name.endswith("bias"):
            narrow = parameter.name in ("output", "outer")
            scale = 0.02 / math.sqrt(2 * config.layers) if narrow else 0.02
            values.normal_(0.0, scale, generator=generator)
        yield values
