"""The heaviest products of a microbatch: looked at in one step, by hooks that go again."""
import collections
import math

from .modules import Hook, modules
from .session import session

_HEAVIEST = 8


class Shapes:
    def __init__(self):
        self._counts = collections.Counter()
        self._passes = 0
        self._handles = []

    def stepped(self, tracked):
        """After the second and third step: hooks for one step."""
        if self._handles:
            for handle in self._handles:
                handle.remove()
            self._handles = []
            self._passes = max(root.calls for root in tracked.roots) - self._passes if tracked.roots else 0
            return
        if self._counts or tracked.compiled or not tracked.may_hook or not tracked.roots:
            return
        root = tracked.roots[0]
        self._passes = root.calls
        for module in root.module().modules():
            look = _LOOKS.get(type(module).__name__)
            if look is not None:
                handle = module.register_forward_hook(Hook(self._seen(look)))
                self._handles.append(handle)
                tracked.keep(handle)

    def _seen(self, look):
        def seen(module, inputs, output):
            if not session.account:
                return
            shape = look(module, inputs, output)
            if shape is not None:
                self._counts[shape[:4]] += shape[4]

        return seen

    def heaviest(self):
        if self._handles or self._passes < 1:
            return []

        def flops(entry):
            (_, m, n, k), count = entry
            return m * n * k * count

        found = sorted(self._counts.items(), key=flops, reverse=True)[:_HEAVIEST]
        return [{"kind": kind, "m": m, "n": n, "k": k, "count": max(1, round(count / self._passes))}
                for (kind, m, n, k), count in found]


def _rows(tensor):
    return math.prod(tensor.shape[:-1])


def _linear(module, inputs, _output):
    return "linear", _rows(inputs[0]), int(module.out_features), int(module.in_features), 1


def _conv1d_of_transformers(module, inputs, _output):
    """A linear module by another name: GPT-2's."""
    return ("linear", _rows(inputs[0]), int(module.nf), int(inputs[0].shape[-1]), 1) if hasattr(module, "nf") else None


def _convolution(module, _inputs, output):
    pixels = int(output.shape[0]) * math.prod(output.shape[2:])
    taps = module.in_channels // module.groups * math.prod(module.kernel_size)
    return "conv", pixels, int(module.out_channels) // module.groups, int(taps), int(module.groups)


def _attention(module, inputs, _output):
    query, key = inputs[0], inputs[1]
    batch, rows = (1, query.shape[0]) if query.dim() == 2 else (
        (query.shape[0], query.shape[1]) if module.batch_first else (query.shape[1], query.shape[0]))
    columns = key.shape[0] if key.dim() == 2 or not module.batch_first else key.shape[1]
    return "attention", int(rows), int(columns), int(module.head_dim), int(batch * module.num_heads)


def _conv1d(module, inputs, output):
    return _conv1d_of_transformers(module, inputs, output) if hasattr(module, "nf") else _convolution(module, inputs, output)


_LOOKS = {"Linear": _linear, "Conv1D": _conv1d, "Conv1d": _convolution, "Conv2d": _convolution, "Conv3d": _convolution,
          "MultiheadAttention": _attention}

shapes = Shapes()
stepped = shapes.stepped
heaviest = shapes.heaviest
