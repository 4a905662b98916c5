"""What torch.compile may trace. It must trace without a break and without a guard that changes.

The rest of this package is passed over by the compiler (compilation.py). Where it traces, nothing is measured: a step of an
optimizer only leaves a mark, which the next hook outside of compiled code finds.
"""
import functools


class Marks:
    """Written by compiled code, which never reads them: a value that is read becomes a guard."""

    def __init__(self):
        self.stepped = False


marks = Marks()
_begins = _ends = None


def is_compiling():
    """Until PyTorch is loaded, and where it has no compiler."""
    return False


def torch_loaded(torch):
    """From now on its compiler, where it has one, is asked by the name that it knows."""
    global is_compiling
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", is_compiling)


def use(begins, ends):
    """begins(optimizer) and ends(optimizer) are called outside of compiled code."""
    global _begins, _ends
    _begins, _ends = begins, ends


def before_step(optimizer, _arguments, _named):
    if not is_compiling():
        _begins(optimizer)


def after_step(optimizer, _arguments, _named):
    if is_compiling():
        marks.stepped = True
    else:
        _ends(optimizer)


def outside(plain, watched):
    """`watched` outside of compiled code, `plain` inside."""

    @functools.wraps(plain)
    def either(*arguments, **named):
        if is_compiling():
            return plain(*arguments, **named)
        return watched(*arguments, **named)

    return either
