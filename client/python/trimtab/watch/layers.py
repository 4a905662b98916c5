"""Ranges around the layers' passes, where they cost next to nothing: tried for some steps and taken away where they do.

A backward pass of a layer begins with the gradient of its output and ends with that of the next layer's. Only tensors carry
hooks for it: those on modules would refuse a model that changes a layer's output in place.
"""
import time

from . import tree
from .account import BACKWARD, FORWARD, RECOMPUTE
from .modules import Hook
from .session import session

_SHARE = 0.005  # Of a step.
_UNSEEN = 2.0  # Calling a hook takes about as long again as what it does.
_STEPS = 3
_LATER_STEPS = 64
_LEVEL = 2  # A layer's range in its part: that of the whole pass is the first.


class Layers:
    def __init__(self):
        self.names_in = tree.layer_names  # A framework knows them better.
        self._handles = []
        self._ns = 0
        self._steps = 0
        self._window = _STEPS
        self._began = 0

    def start(self, tracked):
        """Hooks on the layers of what is trained, else of the first root, where nothing is compiled."""
        if not tracked.may_hook or tracked.compiled or not session.client.ranges.active:
            return
        parts = tracked.trained or [root.module() for root in tracked.roots[:1]]
        for place, part in enumerate(parts):
            if part is not None:
                self._hook(part, f"part{place}." if len(parts) > 1 else "", tracked)
        self._began = time.perf_counter_ns()
        if self._handles:
            session.after_step(self._judge)

    def _hook(self, part, before, tracked):
        names = set(self.names_in(part))
        for name, module in part.named_modules():
            if name in names:
                layer = _Layer(before + (name.replace("module.", "", 1) if name.startswith("module.") else name), self)
                for handle in (module.register_forward_pre_hook(Hook(layer.begins)),
                               module.register_forward_hook(Hook(layer.ends))):
                    self._handles.append(handle)
                    tracked.keep(handle)

    def spent(self, since):
        self._ns += time.perf_counter_ns() - since

    def _judge(self, _number):
        """After the first few steps, and then now and again: a job's first steps are its longest."""
        self._steps += 1
        if self._steps < self._window:
            return True
        now = time.perf_counter_ns()
        cheap = self._ns * _UNSEEN <= _SHARE * (now - self._began)
        self._began, self._ns, self._steps, self._window = now, 0, 0, _LATER_STEPS
        if not cheap:
            for handle in self._handles:
                handle.remove()
        return cheap


class _Layer:
    def __init__(self, name, layers):
        self._name, self._layers = name, layers
        self._open = 0

    def begins(self, _module, inputs):
        since = time.perf_counter_ns()
        account = session.account
        self._open = 0
        if account is not None and account.parts and account.parts[-1] in (FORWARD, RECOMPUTE):
            kind = "recompute" if account.parts[-1] == RECOMPUTE else "forward"
            self._open = account.push(f"op/{self._name}/{kind}")
        self._layers.spent(since)

    def ends(self, _module, _inputs, output):
        since = time.perf_counter_ns()
        account = session.account
        if account is not None and self._open:
            account.pop(self._open)
            tensor = output[0] if isinstance(output, tuple) and output else output
            if getattr(tensor, "requires_grad", False):
                tensor.register_hook(self._backward)
        self._layers.spent(since)

    def _backward(self, _gradient):
        """The gradient of this layer's output is there: the layer behind it has done its pass, and this one begins."""
        since = time.perf_counter_ns()
        account = session.account
        if account is not None and account.parts and account.parts[-1] == BACKWARD:
            account.pop(_LEVEL)
            account.push(f"op/{self._name}/backward")
        self._layers.spent(since)


layers = Layers()
