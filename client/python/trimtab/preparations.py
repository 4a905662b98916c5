"""How often this process did in a step what later steps will not: compiled, captured a graph, grew its allocator.

A step time alone cannot tell that more such steps follow. Of PyTorch only what is loaded already is read; nothing is
imported, and where a release has no such number, nothing is counted. Not seen: what is compiled without
torch.compile, and memory on the host. Main thread.
"""
import functools
import sys


def _compilations(modules):
    """Frames given to torch.compile's compiler, whatever became of them."""
    return modules["torch._dynamo.utils"].counters["frames"]["total"]


def _captures(modules):
    """Graphs captured on a GPU. PyTorch keeps no number of them, so its method is made to count its calls."""
    graph = _cuda(modules).CUDAGraph
    if not hasattr(graph.capture_end, "calls"):
        graph.capture_end = _counted(graph.capture_end)
    return graph.capture_end.calls


def _reserved_bytes(modules):
    """What the allocator has ever taken from the driver for this rank's GPU: it rises and never falls."""
    return _cuda(modules).memory_stats_as_nested_dict()["reserved_bytes"]["all"]["allocated"]


_SOURCES = (_compilations, _captures, _reserved_bytes)


def _cuda(modules):
    cuda = modules["torch"].cuda
    if not cuda.is_initialized():
        raise LookupError("this process uses no GPU")
    return cuda


def _counted(method):
    @functools.wraps(method)
    def counted(*arguments, **named):
        counted.calls += 1
        return method(*arguments, **named)

    counted.calls = 0
    return counted


def _read(source, modules):
    try:
        return int(source(modules))
    except Exception:  # No PyTorch, or none that has this: its insides are no promise to anybody.
        return 0


class Preparations:
    def __init__(self, modules=sys.modules):
        self._modules = modules
        self._count = 0
        self._seen = None  # Of each source, when it was read last.

    def add(self):
        """One that only the job knows of."""
        self._count += 1

    def count(self):
        """All since the first call: one for each source that has risen since the call before."""
        now = [_read(source, self._modules) for source in _SOURCES]
        self._count += sum(new > old for old, new in zip(self._seen or now, now))
        self._seen = now
        return self._count
