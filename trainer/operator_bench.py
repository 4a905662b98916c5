"""One operator alone, run the way the pipeline runs it: for describing it and for timing it."""
import torch

import holding
from allocations import traced
from data import TokenStream
from model import Pass
from operator_state import OperatorState, initial
from tensor_parallel import ALONE


class OperatorBench:
    """The operator with its state, an input, and the gradient of its output. Main thread only."""

    def __init__(self, spec, config, samples, device, tensor=ALONE):
        """`tensor`: with whom the operator is shared; forward() and backward() then contain what they sum."""
        share = holding.alone(spec, config, tensor.size, tensor.index)
        self.state = OperatorState(spec, config, device, initial(spec, config, share, device))
        self.state.module.tensor = tensor
        stream = TokenStream(config)
        tokens, targets = stream.batch(range(samples))
        self._run = Pass(0, list(range(samples)), targets.to(device), stream.counted(range(config.global_batch)))
        shape = (samples, config.sequence, config.hidden)
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
