"""Forward passes that checkpointing repeats inside of a backward pass."""
import functools

from .account import BACKWARD, RECOMPUTE
from .session import session
from .wrapping import replace


class Repeated:
    """How many forward passes the step under way has repeated."""

    def __init__(self):
        self.passes = 0
        self.latest = 0  # Of the last step that is done.

    def take(self):
        self.latest, self.passes = self.passes, 0
        return {}


repeated = Repeated()
session.collect(repeated.take)


def in_backward(function):
    """`function`, which counts as recomputation where it is called inside of a backward pass. It may be a module, so nothing
    of it is copied."""

    def watched(*arguments, **named):
        depth = session.enter(RECOMPUTE, "op/model/recompute") if session.inside(BACKWARD) else 0
        if not depth:
            return function(*arguments, **named)
        repeated.passes += 1
        try:
            return function(*arguments, **named)
        finally:
            session.leave(depth)

    return watched


def checkpoint_loaded(module):
    function_loaded(module)
    frame = getattr(module, "_CheckpointFrame", None)
    if frame is not None:  # Since PyTorch 2.1: one for each call of checkpoint().
        plain = frame.__init__

        @functools.wraps(plain)
        def __init__(self, recompute_fn, *arguments, **named):
            plain(self, in_backward(recompute_fn), *arguments, **named)

        frame.__init__ = __init__
    elif hasattr(module, "_checkpoint_without_reentrant"):
        without = module._checkpoint_without_reentrant

        @functools.wraps(without)
        def _checkpoint_without_reentrant(function, *arguments, **named):
            return without(in_backward(function), *arguments, **named)

        module._checkpoint_without_reentrant = _checkpoint_without_reentrant


def function_loaded(module):
    """A CheckpointFunction: its backward pass is the forward pass once more, then torch.autograd.backward (backward.py). Megatron Core
    has also outputs that are made again by a gradient's hook."""
    function = getattr(module, "CheckpointFunction", None)
    if function is not None:
        function.backward = staticmethod(functools.wraps(function.backward)(in_backward(function.backward)))
    without_output = getattr(module, "CheckpointWithoutOutput", None)
    if without_output is not None:
        replace(without_output, "_recompute", in_backward)
