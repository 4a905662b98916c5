"""What a piece of work allocates: bytes it leaves behind, and the most it held at once.

Counted from the allocator's own events (PyTorch's profiler on a CPU, the caching allocator on a GPU), because a
resident-set reading cannot see megabytes. Memory that a library takes past the allocator (BLAS scratch) is not seen.
"""
import dataclasses

import torch
from torch.profiler import ProfilerActivity, profile


@dataclasses.dataclass(frozen=True)
class Allocations:
    kept_bytes: int  # Allocated by the work and still held when it ended; negative where it freed more.
    peak_bytes: int  # The most at any moment, above what was held when it began.


def traced(work, device):
    """(what work() returns, its Allocations)."""
    if device.type == "cuda":
        return _traced_cuda(work, device)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = work()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=_start):
        held += event.nbytes()
        peak = max(peak, held)
    return result, Allocations(held, peak)


def _start(event):
    """PyTorch 2.4 and later count in nanoseconds only, 1.13 in microseconds only."""
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def _traced_cuda(work, device):
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = work()
    torch.cuda.synchronize(device)
    return result, Allocations(torch.cuda.memory_allocated(device) - before,
                               torch.cuda.max_memory_allocated(device) - before)
