"""Ranges: where training says what it is doing, through the C library that the agent named.

Any thread may push and pop; each thread has its own stack, in the C library. Without a library they do nothing.
"""
import contextlib
import ctypes
import os
import weakref

_NAMES_KEPT = 4096  # Names are few; a caller that puts numbers in them must not grow this without end.


class Ranges:
    """Push and pop through NVTX or through the client library, whichever `environment` asks for and the disk has."""

    def __init__(self, environment=os.environ):
        self.backend = "none"
        self._push = self._pop = None
        self._names = {}
        library = environment.get("TRIMTAB_LIBRARY", "")
        if not library or environment.get("TRIMTAB") == "0":
            return
        choice = environment.get("TRIMTAB_RANGES", "auto")
        shim = os.path.join(os.path.dirname(library), "libtrimtab-nvtx.so")
        # Without an injected library NVTX calls lead nowhere, so auto wants both the shim and the injection.
        through_nvtx = choice == "nvtx" or (choice == "auto" and environment.get("NVTX_INJECTION64_PATH"))
        if through_nvtx and os.path.exists(shim):
            self._load(shim, "nvtx", "trimtab_nvtx_push", "trimtab_nvtx_pop")
        if self._push is None and choice in ("auto", "client"):
            self._load(library, "client", "trimtab_range_push", "trimtab_range_pop")

    def _load(self, path, backend, push, pop):
        try:
            # PyDLL keeps the interpreter lock: these calls take less time than giving it away and back.
            library = ctypes.PyDLL(path)
            push, pop = getattr(library, push), getattr(library, pop)
        except (OSError, AttributeError):
            return
        push.argtypes, push.restype = (ctypes.c_char_p, ctypes.c_int64), None
        pop.argtypes, pop.restype = (), None
        self._push, self._pop, self.backend = push, pop, backend
        # The ring belongs to the process that handed it over; a forked child must not write into it.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _silence(itself()))

    @property
    def active(self):
        return self._push is not None

    def push(self, name, payload=0):
        if self._push is None:
            return
        try:
            encoded = self._names.get(name)
            if encoded is None:
                encoded = name.encode()
                if len(self._names) < _NAMES_KEPT:
                    self._names[name] = encoded
            self._push(encoded, int(payload))
        except (AttributeError, TypeError, ValueError, ctypes.ArgumentError):
            self._push(b"invalid-range", 0)  # The matching pop is still to come.

    def pop(self):
        if self._pop is not None:
            self._pop()

    @contextlib.contextmanager
    def range(self, name, payload=0):
        self.push(name, payload)
        try:
            yield
        finally:
            self.pop()


def _silence(ranges):
    if ranges is not None:
        ranges._push = ranges._pop = None
