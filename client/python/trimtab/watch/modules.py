"""Hooks on modules of the user's model: on the outermost always, where that is not what torch.compile traces."""
import contextlib
import weakref

from . import tree
from .account import ASIDE, BACKWARD, FORWARD
from .loaders import batches
from .optimizers import ends
from .session import session

_LOOKS = 4  # How far down the first module that is called is looked for.
_WHOLE = ("forward", "_call_impl", "_wrapped_call_impl")
_FUSE_FOR_THEMSELVES = ("deepspeed.", "megatron.core.")


class Hook:
    """A hook that a pickle or a copy of the module does not take along: there it is one that does nothing."""

    def __init__(self, call):
        self._call = call

    def __call__(self, *arguments):
        with session.guard("a module's hook"):
            self._call(*arguments)

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")


class Root:
    def __init__(self, torch, module, first):
        self._torch, self._first = torch, first
        self._name = type(module).__name__
        self._depth = 0
        self.module = weakref.ref(module)
        self.calls = 0
        self.dtype = None

    def begins(self, module, *inputs):
        self.calls += 1
        if session.inside(BACKWARD):
            return
        trains = self._torch.is_grad_enabled() or module.training
        if not trains and session.account is not None:
            session.account.evaluates()
        self._depth = session.enter(FORWARD if trains else ASIDE, f"op/{self._name}/forward" if trains else None)
        if not trains and self._depth and self._first:
            batches.evaluated()
        if trains and self._depth and self._first:
            self.dtype = _autocast(self._torch)
            for values in inputs:
                if values:
                    batches.computed(values)
                    break

    def ends(self, *_):
        depth, self._depth = self._depth, 0
        session.leave(depth)


def _autocast(torch):
    """What autocast computes in; None: it is off."""
    if torch.is_autocast_enabled():
        return torch.get_autocast_gpu_dtype()
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def _is_a_frameworks(what):
    """A function that a framework compiles for itself (a fused activation), which never calls the model."""
    module = str(getattr(what, "__module__", ""))
    return hasattr(what, "__code__") and not hasattr(what, "__self__") and module.startswith(_FUSE_FOR_THEMSELVES)


class Modules:
    """What is hooked. All of it goes when anything is compiled later."""

    def __init__(self):
        self.torch = None
        self._trained = ()
        self.roots = []
        self.compiled = False
        self._compiles_functions = False
        self._handles = []
        self._looks = 0
        self._closed = False

    @property
    def trained(self):
        """Where a framework knows what it trains: its optimizer may hold none of the parameters."""
        return [module for module in (trained() for trained in self._trained) if module is not None]

    @trained.setter
    def trained(self, modules):
        self._trained = tuple(map(weakref.ref, modules))

    def compiles(self, what):
        """The compiler is asked for this: a module, a function, or None (a decorator's arguments)."""
        if what is None or _is_a_frameworks(what):
            return
        self.unhook()
        if self.torch is None:
            self._compiles_functions = True
            return
        self.compiled = True
        owner = getattr(what, "__self__", None)
        module = isinstance(what, self.torch.nn.Module)
        if not module and not (isinstance(owner, self.torch.nn.Module) and what.__name__ in _WHOLE):
            self._compiles_functions = True  # It may call the model.

    def unhook(self):
        self._closed = self._closed or bool(self._handles)
        while self._handles:
            self._handles.pop().remove()

    @property
    def reduces(self):
        """Whether DDP reduces gradients behind the backward pass that begins: not inside of no_sync()."""
        module = self.roots[0].module() if self.roots else None
        return bool(getattr(module, "require_backward_grad_sync", False))

    @property
    def may_hook(self):
        return not self._closed and not self._compiles_functions

    def keep(self, handle):
        self._handles.append(handle)

    def find(self):
        self.roots = []
        found = self.trained or tree.roots(self.torch, ends.optimizers())
        self._hook(found)
        return found

    def _hook(self, found):
        if not self.may_hook:
            return
        for module in found:
            if getattr(module, "_compiled_call_impl", None) is not None:
                continue
            root = Root(self.torch, module, not self.roots)
            self.roots.append(root)
            self._register(module, root)

    def _register(self, module, root):
        before, after = Hook(root.begins), Hook(root.ends)
        try:  # Before the hooks of FSDP, which gathers parameters in one, and with the arguments by name.
            self.keep(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
        except TypeError:  # PyTorch 1.13
            self.keep(module.register_forward_pre_hook(before))
        self.keep(module.register_forward_hook(after))

    def look_further(self):
        """Where no root is ever called (a framework's wrapper), its children may be. False: nothing is left to do."""
        if not self.roots or any(root.calls for root in self.roots) or self._looks == _LOOKS or not self.may_hook:
            return False
        self._looks += 1
        inner = [child for root in self.roots if root.module() is not None for child in root.module().children()
                 if next(child.parameters(), None) is not None]
        if self.compiled:  # What is inside of compiled code is not known.
            inner = [child for child in inner if tree.is_compiled(child)]
        while self._handles:
            self._handles.pop().remove()
        self.roots = []
        self._hook(inner)
        return True


modules = Modules()
compiles = modules.compiles


def watch(torch):
    from . import facts

    modules.torch = torch
    session.after_step(facts.stepped)
