"""Backward passes: torch.autograd.backward, which Tensor.backward calls, too. Users call it outside of compiled code. Megatron Core's
schedules call the engine themselves, in their custom_backward.

Behind the graph, before the call returns, wrappers wait: DDP for its all-reduces, FSDP for its last reduce-scatter. The engine
calls back in the order of asking, and we ask before the first gradient is there, so the moment of our call is where that
waiting begins.
"""
import functools
import sys

from . import optimizers
from .account import BACKWARD, COMMUNICATION, FORWARD, OPTIMIZER, RECOMPUTE
from .identity import initialized_distributed
from .losses import losses
from .modules import modules
from .session import session
from .wrapping import as_part, replace


class Counts:
    """Backward passes of the step under way, but for those that an optimizer's closure makes; and those behind which DDP
    reduces gradients."""

    def __init__(self):
        self.passes = self.reduced = 0
        self.latest_reduced = 0  # Of the last step that is done.

    def take(self):
        passes = self.passes
        self.latest_reduced = self.reduced
        self.passes = self.reduced = 0
        values = {"loss": losses.take()}
        if passes:
            values["microbatches"] = passes
        return values


counts = Counts()
session.collect(counts.take)


def autograd_loaded(module):
    module.backward = _watched(module.backward, module)


def schedules_loaded(module):
    if hasattr(module, "custom_backward"):
        module.custom_backward = _watched(module.custom_backward, sys.modules["torch.autograd"])


def nodes_loaded(module):
    """Where experts' communication is hidden, a schedule runs the model's layers by pieces, one microbatch forward and another backward, and
    calls neither the model nor torch.autograd."""
    node = getattr(module, "ScheduleNode", None)
    if node is not None:
        replace(node, "_forward", lambda plain: as_part(plain, FORWARD, "op/model/forward"))
        replace(node, "_backward", lambda plain: as_part(plain, BACKWARD, "op/model/backward"))


def _watched(plain, autograd):
    """A function that takes first what the backward pass begins at."""

    @functools.wraps(plain)
    def backward(*arguments, **named):
        depth = 0
        with session.guard("the backward pass's hook"):
            depth, handle = _begins(autograd, arguments, named)
        try:
            return plain(*arguments, **named)
        finally:
            if depth:
                with session.guard("the backward pass's hook"):
                    _ends(depth, handle)

    return backward


def _begins(autograd, arguments, named):
    if session.inside(BACKWARD):
        # Within another: the recomputed forward pass of a checkpoint is done, and its backward pass begins.
        return (session.enter(BACKWARD) if session.inside(RECOMPUTE) else 0), None
    in_closure = session.inside(OPTIMIZER)
    depth = session.enter(BACKWARD, "op/model/backward")
    if not depth:
        return 0, None
    if not in_closure:
        counts.passes += 1
        counts.reduced += modules.reduces
    tensor = arguments[0] if arguments else named.get("tensors")
    if isinstance(tensor, (list, tuple)):
        tensor = tensor[0] if tensor else None
    if tensor is None or not tensor.requires_grad:
        return depth, None
    losses.add(tensor)
    return depth, _watch_end(autograd, tensor)


def _watch_end(autograd, tensor):
    """Counts what comes behind the graph as communication, where there are other ranks."""
    distributed = initialized_distributed()
    if distributed is None:
        return None
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    if compiled is not None and getattr(compiled, "compiled_autograd_enabled", False):
        return None  # It would compile the hook.

    def graph_ends():
        session.enter(COMMUNICATION, f"comm/all_reduce/{distributed.get_world_size()}")

    def graph_begins(_gradient):
        autograd.Variable._execution_engine.queue_callback(graph_ends)

    return tensor.register_hook(graph_begins)


def _ends(depth, handle):
    if handle is not None:
        handle.remove()
    session.leave(depth)
    optimizers.after_backward()
