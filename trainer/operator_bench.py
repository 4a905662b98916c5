"""One operator alone, run the way the pipeline runs it: for describing it and for timing it.

What a piece of work allocates: bytes it leaves behind, and the most it held at once.

Counted from the allocator's own events (PyTorch's profiler on a CPU, the caching allocator on a GPU), because a
resident-set reading cannot see megabytes. Memory that a library takes past the allocator (BLAS scratch) is not seen.
"""
import dataclasses

import torch
from torch.profiler import ProfilerActivity, profile

import holding
from data import TokenStream
from model import Pass
from operator_state import OperatorState, initial
from tensor_parallel import ALONE


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


class OperatorBench:
    """The operator with its state, an input, and the gradient of its output. Main thread only."""

    def __init__(self, spec, config, samples, device, tensor=ALONE, context=ALONE):
        """`tensor`, `context`: with whom the operator and its sequences are shared; forward() and backward() then contain
        what they say to each other."""
        share = holding.alone(spec, config, tensor.size, tensor.index)
        self.state = OperatorState(spec, config, device, initial(spec, config, share, device))
        module = self.state.module
        module.tensor, module.context = tensor, context
        stream, length = TokenStream(config), config.sequence // context.size
        tokens, targets = (whole[:, context.index * length : (context.index + 1) * length].contiguous()
                           for whole in stream.batch(range(samples)))
        self._run = Pass(0, list(range(samples)), targets.to(device), stream.counted(range(config.global_batch)))
        shape = (samples, length // tensor.parts, config.hidden)
        generator = torch.Generator().manual_seed(config.seed)
        self._input, self._gradient = tokens.to(device), None
        if spec.kind != "embedding":
            self._input = torch.randn(shape, generator=generator).to(device, config.dtype)
        if spec.kind != "head":
            gradient = torch.randn(shape, generator=generator) / (samples * config.sequence)
            self._gradient = gradient.to(device, config.dtype)

    def forward(self):
        leaf = self._input.detach().requires_grad_(self._input.is_floating_point())
        return leaf, self.state.module(leaf, self._run)

    def backward(self, kept):
        leaf, output = kept
        torch.autograd.backward(output, self._gradient)
        return leaf.grad

    def memory(self):
        """(stored, working) bytes as the cost kinds define them."""
        device = self._input.device
        self.backward(self.forward())  # First calls allocate what later calls reuse.
        kept, forward = traced(self.forward, device)
        _, backward = traced(lambda: self.backward(kept), device)
        gradient = 0 if self._gradient is None else self._gradient.numel() * self._gradient.element_size()
        # During the backward the output's gradient is held too; it came from outside.
        working = max(forward.peak_bytes - forward.kept_bytes, backward.peak_bytes + gradient)
        return forward.kept_bytes, working
