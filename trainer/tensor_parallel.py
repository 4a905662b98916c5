"""Tensor parallelism (Shoeybi et al. 2019, section 3): what the ranks that share one operator say to each other.

The activations between operators are whole on every rank (or shared: sequence_sharing.py). Inside an operator the first
weight is split by its outputs and the second by its inputs, so each rank computes a share whose sum is the result: one
all-reduce in the forward pass (`summed`) and one of the input's gradient in the backward pass (`into`).
"""
import torch
import torch.distributed as dist
from torch.nn import functional

from data import NO_TARGET


class TensorParallel:
    """This rank's part among those that share an operator."""

    parts, part = 1, 0  # Of the tokens between operators: how many the ranks divide them into, and which is this one's.

    def __init__(self, group, index, launcher):
        """`index`: which share of the operators is this rank's; the group has an order of its own."""
        self._group, self._launcher = group, launcher
        self.size, self.index = group.size, index

    def into(self, x, body):
        """body(the operator's input), in either pass the same on all ranks."""
        return body(_Copied.apply(x, self) if x.requires_grad else x)

    def summed(self, share):
        return _Summed.apply(share, self)

    def all_reduce(self, tensor, operation=dist.ReduceOp.SUM):
        """In place; returns when it is complete."""
        with self._launcher.range(f"comm/all_reduce/{self.size}", tensor):
            self._group.all_reduce(tensor, operation).wait()
        return tensor

    def launch(self, tensor):
        """The same without waiting; returns its work."""
        return self._launcher.launch(
            f"comm/all_reduce/{self.size}", tensor, lambda: self._group.all_reduce(tensor))


class Alone:
    """A whole operator, or sequence, on one rank: nothing to say."""

    size, index, parts, part = 1, 0, 1, 0

    def into(self, x, body):
        return body(x)

    def summed(self, share):
        return share

    def all_reduce(self, tensor):
        return tensor

    def launch(self, tensor):
        return None


ALONE = Alone()


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, tensor):
        ctx.tensor = tensor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.tensor.all_reduce(gradient.contiguous()), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, share, tensor):
        ctx.mark_dirty(share)
        return tensor.all_reduce(share)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def cross_entropy_sum(logits, targets, tensor):
    """Sum of the cross entropy over rows with a target; `logits` [rows, vocabulary / ranks] hold this rank's part of the
    vocabulary.

    Every rank of the operator gets the same sum."""
    if tensor.size == 1:
        return functional.cross_entropy(logits, targets, reduction="sum")
    return _SplitCrossEntropy.apply(logits, targets, tensor)


class _SplitCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, tensor):
        width = logits.shape[1]
        local = targets - tensor.index * width
        elsewhere = (local < 0) | (local >= width)
        local = local.masked_fill(elsewhere, 0).unsqueeze(1)
        largest = tensor.all_reduce(logits.amax(1), dist.ReduceOp.MAX)
        shifted = logits - largest.unsqueeze(1)
        wanted = shifted.gather(1, local).squeeze(1).masked_fill(elsewhere, 0.0)
        softmax = shifted.exp_()
        sums = tensor.all_reduce(torch.stack([softmax.sum(1), wanted]))
        without = targets == NO_TARGET
        softmax.div_(sums[0].unsqueeze(1)).masked_fill_(without.unsqueeze(1), 0.0)
        ctx.save_for_backward(softmax, local, elsewhere)
        return (sums[0].log() - sums[1]).masked_fill_(without, 0.0).sum()

    @staticmethod
    def backward(ctx, gradient):
        softmax, local, elsewhere = ctx.saved_tensors
        there = torch.logical_not(elsewhere).to(softmax.dtype).unsqueeze(1)
        return softmax.scatter_add(1, local, -there).mul_(gradient), None, None
