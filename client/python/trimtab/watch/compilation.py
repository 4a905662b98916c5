"""torch.compile: the compiler passes over our functions, and modules that it may trace lose our hooks first."""
import functools
import os

from . import modules, traced
from .session import session


def rules_loaded(module):
    """The compiler's list of folders that it does not trace: ours is one, but for traced.py, which it must."""
    for name in sorted(os.listdir(os.path.dirname(os.path.abspath(__file__)))):
        stem, suffix = os.path.splitext(name)
        if suffix == ".py" and stem not in ("__init__", "traced"):
            module.add(f"{__package__}.{stem}")


def torch_loaded(module):
    for owner, name in ((module, "compile"), (module.jit, "script")):
        if hasattr(owner, name):
            setattr(owner, name, _unhooked_first(module, getattr(owner, name)))
    traced.torch_loaded(module)
    modules.watch(module)


def export_loaded(module):
    if hasattr(module, "export"):
        module.export = _unhooked_first(module, module.export)


def _unhooked_first(torch, plain):
    @functools.wraps(plain)
    def compiling(*arguments, **named):
        with session.guard("torch.compile's hook"):
            modules.compiles(arguments[0] if arguments else named.get("model"))
        return plain(*arguments, **named)

    return compiling
