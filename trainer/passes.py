"""Forward, recompute and backward of one stage, operator by operator.

Each operator gets a detached input and keeps its own piece of the autograd graph, so that each pass of each operator
is a call of its own that can be timed, recomputed, or followed by its gradient's all-reduce. Main thread only.
"""
import torch


class StagePasses:
    def __init__(self, states, recompute, ranges):
        """`states` are the stage's OperatorStates in order; `recompute` the indices that keep only their input."""
        self._states, self._ranges = states, ranges
        self._recompute = recompute
        self._kept = {}

    def forward(self, microbatch, x, run):
        """The stage's output for the microbatch; what backward needs is kept under its number."""
        kept = []
        for state in self._states:
            with self._ranges.range(f"op/{state.spec.name}/forward", len(run.sample_ids)):
                if state.spec.index in self._recompute:
                    with torch.no_grad():
                        output = state.module(x, run)
                    kept.append((x, None))
                else:
                    leaf = _leaf(x)
                    output = state.module(leaf, run)
                    kept.append((leaf, output))
                x = output.detach()
        self._kept[microbatch] = (kept, run)
        return x

    def backward(self, microbatch, gradient, finished=None):
        """Accumulate the parameters' gradients; returns the gradient of the stage's input (None for tokens).

        `finished(state)` is called after each operator, last first: from then on its gradient is complete if this is
        the last microbatch.
        """
        kept, run = self._kept.pop(microbatch)
        for state in reversed(self._states):
            leaf, output = kept.pop()
            if output is None:
                leaf = _leaf(leaf)
                with self._ranges.range(f"op/{state.spec.name}/recompute", len(run.sample_ids)):
                    output = state.module(leaf, run)
            with self._ranges.range(f"op/{state.spec.name}/backward", len(run.sample_ids)):
                torch.autograd.backward(output, gradient)
                gradient = leaf.grad
                del leaf, output  # Else they live on through the next operator's recompute.
            if finished is not None:
                finished(state)
        return gradient


def _leaf(x):
    return x.detach().requires_grad_(x.is_floating_point())
