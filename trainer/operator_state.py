"""What a rank holds of one operator: its module, and flat tensors of parameters, Adam's moments and gradients.

Flat, because then the optimizer is a few vector operations, a collective needs no copy, and a snapshot or a move to
another rank is a few contiguous pieces. The module's parameters are views into them; holding.py says which elements
they are. Not thread-safe.
"""
import dataclasses
import math

import torch

import intervals
from host_memory import host_tensor
from model import build, initial_values, parameters_of

BETAS = (0.9, 0.999)
EPSILON = 1e-8
MOMENTS = 2
# The update needs one temporary; in pieces of this many elements it stays in cache and out of the memory peak. A GPU
# wants fewer and larger launches.
UPDATE_PIECE = 1 << 17
UPDATE_PIECE_GPU = 1 << 24


class Values:
    """An operator's values and moments as one rank holds them: what outlives a change of plan."""

    def __init__(self, holding, device):
        """Unset, except for the padding, which stays zero."""
        self.holding = holding
        self.parameters = _unset((holding.parameter_elements,), holding.lazy, device)
        self.moments = _unset((MOMENTS, holding.piece), holding.offload, device)
        kept = intervals.size(holding.parameters)
        self.parameters[kept:].zero_()
        self.moments[:, intervals.size(holding.owned):].zero_()

    @property
    def own(self):
        """The part of the values that this rank updates."""
        holding = self.holding
        if holding.shards_parameters or holding.degree == 1:
            return self.parameters
        return self.parameters[holding.own]


def _unset(shape, on_host, device):
    return host_tensor(shape, device) if on_host else torch.empty(shape, device=device)


def initial(spec, config, holding, device):
    """The Values of a job that begins."""
    values = Values(holding, device)
    values.moments.zero_()
    begin = 0
    for whole in initial_values(spec, config):
        here = ((begin, begin + len(whole)),)
        for position, at, length in intervals.common(holding.parameters, here):
            values.parameters[position : position + length].copy_(whole[at : at + length])
        begin += len(whole)
    return values


class OperatorState:
    def __init__(self, spec, config, device, values):
        """Trains `values`, which it keeps and does not copy."""
        self.spec, self.config, self.values, self.holding = spec, config, values, values.holding
        self.device = device
        self.module = build(spec, config).to(device)
        holding = self.holding
        self._shapes = _local_shapes(spec, config, holding)
        assert sum(math.prod(shape) for shape in self._shapes) == holding.count, f"{spec.name}: another share"
        # Where the parameters are sharded or on the host: room for all of them, which exists only around a pass.
        self.gathered = None
        if holding.released:
            self.gathered = torch.empty(holding.padded, device=device)
        self._set(values.parameters if self.gathered is None else self.gathered, "data")
        if self.gathered is not None:
            self.release_parameters()
        elements = holding.piece if holding.shards_gradients else holding.padded
        self.gradient = _unset((elements,), holding.offload_gradient, device).zero_()
        self._whole_gradient = None
        if not holding.passes_own_gradient:
            self._set(self.gradient, "grad")

    def make_room_for_parameters(self):
        _resize(self.gathered, self.holding.padded)

    def release_parameters(self):
        """Free the gathered parameters. What autograd has saved refers to the same storage and comes back with them."""
        _resize(self.gathered, 0)

    def begin_backward(self):
        """Where gradients are sharded, or wait on the host, a pass needs room for a whole one."""
        if self.holding.passes_own_gradient and self._whole_gradient is None:
            self._whole_gradient = torch.zeros(self.holding.padded, device=self.device)
            self._set(self._whole_gradient, "grad")

    def take_gradient(self):
        """The pass's whole gradient, which the caller now holds; only where each pass has its own."""
        whole, self._whole_gradient = self._whole_gradient, None
        for parameter in self.module.parameters():
            parameter.grad = None
        return whole

    def update(self, recipe, step):
        """One Adam step (the `step`-th counted from 1) of the owned elements, then cleared gradients.

        Returns the squared norm of the gradient that this rank answers for, as a tensor: reading it waits for a GPU,
        once for all operators is enough.
        """
        gradient = self.own_gradient
        squared_norm = torch.zeros((), device=gradient.device)
        for position, _, length in intervals.common(self.holding.owned, self.holding.unique):
            part = gradient[position : position + length]
            squared_norm += torch.dot(part, part)
        size = UPDATE_PIECE if gradient.device.type == "cpu" else UPDATE_PIECE_GPU
        for begin in range(0, self.holding.piece, size):
            piece = slice(begin, begin + size)
            own, moments = self.values.own[piece], self.values.moments[:, piece]
            # The update is computed where the moments are.
            updated = own.to(moments.device)
            _adam(updated, moments, gradient[piece].to(moments.device), recipe, step)
            if updated.data_ptr() != own.data_ptr():
                own.copy_(updated)
        self.gradient.zero_()
        return squared_norm

    @property
    def whole_part_of_gradient(self):
        """Of own_gradient, what tensor parallelism leaves whole: parameters that are split come after all others."""
        whole = sum(parameter.count for parameter in parameters_of(self.spec, self.config) if not parameter.split)
        begin = self.holding.own.start
        return self.own_gradient[: max(0, whole - begin)]

    @property
    def own_gradient(self):
        holding = self.holding
        if holding.shards_gradients or holding.degree == 1:
            return self.gradient
        return self.gradient[holding.own]

    def _set(self, flat, attribute):
        offset = 0
        for parameter, shape in zip(self.module.parameters(), self._shapes):
            end = offset + math.prod(shape)
            setattr(parameter, attribute, flat[offset:end].view(shape))
            offset = end


def _local_shapes(spec, config, holding):
    """The shapes of this rank's share of each parameter, from how much it holds in all."""
    parameters = parameters_of(spec, config)
    whole = sum(parameter.count for parameter in parameters if not parameter.split)
    split = sum(parameter.count for parameter in parameters if parameter.split)
    return [parameter.local_shape(split // (holding.count - whole)) for parameter in parameters]


def _resize(tensor, elements):
    """Give a flat tensor's storage this many elements; the tensor and all views of it stay what they are."""
    if hasattr(tensor, "untyped_storage"):
        tensor.untyped_storage().resize_(elements * tensor.element_size())
    else:
        tensor.storage().resize_(elements)  # PyTorch 1.13


@dataclasses.dataclass(frozen=True)
class Recipe:
    learning_rate: float
    weight_decay: float


def _adam(parameter, moments, gradient, recipe, step):
    first, second = moments
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = second.sqrt().div_(math.sqrt(1 - BETAS[1] ** step)).add_(EPSILON)
    if recipe.weight_decay:
        parameter.mul_(1 - recipe.learning_rate * recipe.weight_decay)
    parameter.addcdiv_(first, denominator, value=-recipe.learning_rate / (1 - BETAS[0] ** step))

