"""What a rank holds of one operator: its module, and parameters with Adam's moments in one flat tensor.

Flat, because then the optimizer is a few vector operations, a gradient all-reduce needs no copy, and a snapshot or a
move to another rank is one contiguous piece. The module's parameters are views into it. Not thread-safe.
"""
import dataclasses
import math

import torch

from model import build, parameter_count

BETAS = (0.9, 0.999)
EPSILON = 1e-8
STATE_ROWS = 3  # Parameters, first moment, second moment.
# The update needs one temporary; in pieces of this many elements it stays in cache and out of the memory peak. A GPU
# wants fewer and larger launches.
UPDATE_PIECE = 1 << 17
UPDATE_PIECE_GPU = 1 << 24


def state_bytes(spec, config):
    """Bytes of the operator's parameters and moments: what moves and what a snapshot holds."""
    return 4 * STATE_ROWS * parameter_count(spec, config)


def held_bytes(spec, config):
    """The same with its gradients: what a training rank keeps resident."""
    return 4 * (STATE_ROWS + 1) * parameter_count(spec, config)


class OperatorState:
    def __init__(self, spec, config, device, state=None):
        """Starts from `state` (a [3, n] tensor, kept, not copied) or from the initial parameters."""
        self.spec = spec
        self.module = build(spec, config, initialise=state is None)
        self.count = parameter_count(spec, config)
        if state is None:
            state = torch.zeros(STATE_ROWS, self.count, device=device)
            with torch.no_grad():
                state[0].copy_(torch.cat([parameter.flatten() for parameter in self.module.parameters()]))
        self.state = state
        self.gradient = torch.zeros(self.count, device=device)
        self.module.to(device)
        offset = 0
        for parameter in self.module.parameters():
            end = offset + parameter.numel()
            parameter.data = state[0, offset:end].view(parameter.shape)
            parameter.grad = self.gradient[offset:end].view(parameter.shape)
            offset = end
        assert offset == self.count, f"{spec.name}: parameter_count disagrees with the module"

    def keep_only_state(self):
        """Free the gradient and the module before the state moves; nothing but `state` is usable afterwards."""
        self.module = self.gradient = None

    def update(self, recipe, step):
        """One Adam step (the `step`-th counted from 1), then cleared gradients.

        Returns the gradient's squared norm as a tensor: reading it waits for a GPU, once for all operators is enough.
        """
        squared_norm = torch.dot(self.gradient, self.gradient)
        size = UPDATE_PIECE if self.gradient.device.type == "cpu" else UPDATE_PIECE_GPU
        for begin in range(0, self.count, size):
            piece = slice(begin, begin + size)
            _adam(self.state[:, piece], self.gradient[piece], recipe, step)
        self.gradient.zero_()
        return squared_norm


@dataclasses.dataclass(frozen=True)
class Recipe:
    learning_rate: float
    weight_decay: float


def _adam(state, gradient, recipe, step):
    parameter, first, second = state
    first.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    denominator = second.sqrt().div_(math.sqrt(1 - BETAS[1] ** step)).add_(EPSILON)
    if recipe.weight_decay:
        parameter.mul_(1 - recipe.learning_rate * recipe.weight_decay)
    parameter.addcdiv_(first, denominator, value=-recipe.learning_rate / (1 - BETAS[0] ** step))

