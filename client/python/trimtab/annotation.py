"""Ranges around a module tree's forward and backward passes, by its own hooks:

    import trimtab
    client = trimtab.connect()
    notes = trimtab.annotate(model, client.ranges)   # op/<qualified name>/forward, /backward, /recompute
    ...
    notes.remove()

Works on whatever has named_modules() and PyTorch's hook methods; imports nothing. Only modules are told apart, not what
runs between them. Passes of parallel branches may end in another order than they began; a range then ends with the one
around it, so ranges stay nested whatever the graph does.
"""
import sys
import threading


def annotate(module, ranges, *, names=None):
    """Puts ranges around the passes of `module`'s submodules and returns an Annotation.

    `names`: a function of (qualified name, submodule) that says which; by default all but the root, or the root alone
    where it has no children. The payload is the first tensor's first extent: samples, where the batch comes first.
    Without an active `ranges` (no agent, TRIMTAB=0) no hook is set.
    """
    annotation = Annotation(ranges)
    if not ranges.active:
        return annotation
    tree = list(module.named_modules())
    for name, submodule in tree:
        wanted = names(name, submodule) if names else bool(name) or len(tree) == 1
        if wanted:
            annotation.add(name or type(submodule).__name__, submodule)
    return annotation


class Annotation:
    """The hooks that were set. remove() takes them away; ranges that are open then end with the pass around them."""

    def __init__(self, ranges):
        self._ranges = ranges
        self._handles = []
        self._local = threading.local()

    @property
    def count(self):
        """How many hooks are set."""
        return len(self._handles)

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def add(self, name, module):
        watched = _Module(name, module, self)
        self._handles.append(module.register_forward_pre_hook(watched.forward_begins))
        try:  # A forward pass that raises ends its range, too, where the framework can say so.
            self._handles.append(module.register_forward_hook(watched.forward_ends, always_call=True))
        except TypeError:
            self._handles.append(module.register_forward_hook(watched.forward_ends))
        if hasattr(module, "register_full_backward_hook"):
            self._handles.append(module.register_full_backward_hook(watched.backward_ends))

    def keep(self, handle):
        self._handles.append(handle)

    def stack(self):
        """What is open on this thread: (module, "forward" or "backward", number of the pass)."""
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    def push(self, key, name, payload):
        stack = self.stack()
        if key in stack:
            return
        self.pop(*key[:2])  # an earlier pass whose end never came
        stack.append(key)
        self._ranges.push(name, payload)

    def pop(self, module, kind):
        """Ends this module's range and those inside it; nothing where none is open."""
        stack = self.stack()
        if not any(key[0] is module and key[1] == kind for key in stack):
            return
        while stack:
            self._ranges.pop()
            key = stack.pop()
            if key[0] is module and key[1] == kind:
                return


class _Module:
    """One module's hooks. A backward pass begins with the gradient of an output. It ends when the gradients of the inputs
    are there, or, of a module whose inputs need none (an embedding), when those of all its parameters are."""

    def __init__(self, name, module, annotation):
        self._name, self._module, self._annotation = name, module, annotation
        self._passes = 0
        self._samples = 0
        self._ends_with_parameters = False
        self._parameters = []
        self._missing = 0

    def forward_begins(self, _module, inputs):
        self._passes += 1
        self._samples = _first_extent(inputs)
        if not any(getattr(value, "requires_grad", False) for value in _values(inputs)):
            self._watch_parameters()
        kind = "recompute" if _in_backward(self._annotation.stack()) else "forward"
        self._annotation.push((self._module, "forward", self._passes), f"op/{self._name}/{kind}", self._samples)

    def forward_ends(self, _module, _inputs, output):
        self._annotation.pop(self._module, "forward")
        key, samples = (self._module, "backward", self._passes), self._samples

        def begins(_gradient):
            self._missing = len(self._parameters)
            self._annotation.push(key, f"op/{self._name}/backward", samples)

        for value in _values(output):
            if getattr(value, "requires_grad", False):
                value.register_hook(begins)

    def backward_ends(self, _module, _inputs, _gradients):
        if not self._ends_with_parameters:
            self._annotation.pop(self._module, "backward")

    def _watch_parameters(self):
        if self._ends_with_parameters:
            return
        self._parameters = [value for value in self._module.parameters() if value.requires_grad]
        self._ends_with_parameters = bool(self._parameters)
        for parameter in self._parameters:
            self._annotation.keep(parameter.register_hook(self._parameter_done))

    def _parameter_done(self, _gradient):
        self._missing -= 1
        if self._missing == 0:
            self._annotation.pop(self._module, "backward")


def _values(values):
    return values if isinstance(values, (tuple, list)) else (values,)


def _first_extent(inputs):
    for value in _values(inputs):
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
    return 0


def _in_backward(stack):
    """Whether a forward pass runs within a backward pass: activations are computed again."""
    if any(key[1] == "backward" for key in stack):
        return True
    task = getattr(getattr(sys.modules.get("torch"), "_C", None), "_current_graph_task_id", None)
    return task is not None and task() != -1
