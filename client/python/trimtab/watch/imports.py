"""Hands each module of the table to its function, once it has been imported."""
import functools
import importlib
import sys

from .finder import Watcher
from .session import session
from .table import MODULES


class Finder(Watcher):
    """Hands each module of the table to its function."""

    def __init__(self, modules=MODULES):
        super().__init__(modules, functools.partial(_hand_over, modules))
        for name in modules:
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self._loaded(module)  # Somebody was there before us.


def _hand_over(modules, module):
    place, function = modules[module.__name__]
    with session.guard(place):
        getattr(importlib.import_module(place), function)(module)
