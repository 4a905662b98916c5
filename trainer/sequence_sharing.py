"""Ranks that have a part of each sequence: how they bring the parts together, and add up what is of all of them.

Sequence parallelism (Korthikanti et al. 2022): beside tensor parallelism the ranks have a part of each sequence between
operators. An operator's input is all-gathered, and the sum of its shares reduce-scattered; backwards the other way round.
Context parallelism: each rank has the queries of its part of each sequence alone, and the keys and values of all parts are
all-gathered. Causal attention here computes what its mask hides, so equal parts are equal work.

What autograd keeps of gathered tensors is the rank's own part: the others' are gathered once more by the backward pass.
"""
import torch
from torch.autograd import graph

from tensor_parallel import TensorParallel


class Sharers:
    """The ranks that share a sequence, and which of its parts is this one's."""

    def __init__(self, group, members, launcher):
        """`members`: the ranks of the group in the order of their parts."""
        self._group, self._launcher, self.size = group, launcher, len(members)
        self._parts = [members.index(rank) for rank in group.members]
        self.index = self._parts[group.index]

    def gather(self, part, axis):
        """The ranks' parts one after the other along the axis."""
        part = part.contiguous()
        parts = torch.empty((self.size, *part.shape), dtype=part.dtype, device=part.device)
        with self._launcher.range(f"comm/all_gather/{self.size}", part):
            self._group.all_gather([parts[number] for number in self._parts], part).wait()
        return parts.movedim(0, axis).flatten(axis, axis + 1).contiguous()

    def scatter(self, whole, axis):
        """This rank's part of the sum of everyone's `whole`."""
        pieces = whole.unflatten(axis, (self.size, whole.shape[axis] // self.size)).movedim(axis, 0)
        parts = pieces[self._parts].contiguous()  # In the order of the group.
        with self._launcher.range(f"comm/reduce_scatter/{self.size}", parts):
            self._group.reduce_scatter(parts.view(-1)).wait()
        return parts[self._group.index].clone()

    def together(self, part, axis, body):
        """body(the ranks' parts together). Of these body() may return nothing and no view."""
        whole = _Gathered.apply(part, self, axis)
        kept = _GatheredAgain(self, part.detach(), axis, whole)
        with graph.saved_tensors_hooks(kept.pack, kept.unpack):
            return body(whole)

    def added_up(self, share, axis):
        return _Scattered.apply(share, self, axis)


class SequenceParallel(TensorParallel):
    """TensorParallel of ranks whose activations between operators are parts of sequences."""

    def __init__(self, group, members, launcher):
        self._sharers = Sharers(group, members, launcher)
        super().__init__(group, self._sharers.index, launcher)
        self.parts, self.part = self.size, self.index

    def into(self, x, body):
        return self._sharers.together(x, 1, body) if x.is_floating_point() else body(x)  # Tokens are whole.

    def summed(self, share):
        return self._sharers.added_up(share, 1)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, sharers, axis):
        ctx.sharers, ctx.axis = sharers, axis
        return sharers.gather(part, axis)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.sharers.scatter(gradient, ctx.axis), None, None


class _Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, share, sharers, axis):
        ctx.sharers, ctx.axis = sharers, axis
        return sharers.scatter(share, axis)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.sharers.gather(gradient, ctx.axis), None, None


class _GatheredAgain:
    """Stands for a gathered tensor, and for views of it, in what autograd keeps. All ranks unpack alike."""

    def __init__(self, sharers, part, axis, whole):
        self._sharers, self._part, self._axis = sharers, part, axis
        self._begin, self._end = whole.data_ptr(), whole.data_ptr() + whole.numel() * whole.element_size()
        self._whole, self._left = None, 0  # Gathered again, until the last of so many views was asked for.

    def pack(self, tensor):
        if not self._begin <= tensor.data_ptr() < self._end:
            return tensor
        self._left += 1
        return tensor.shape, tensor.stride(), (tensor.data_ptr() - self._begin) // tensor.element_size()

    def unpack(self, kept):
        if torch.is_tensor(kept):
            return kept
        if self._whole is None:
            self._whole = self._sharers.gather(self._part, self._axis)
        view = self._whole.as_strided(*kept)
        self._left -= 1
        if not self._left:
            self._whole = None
        return view
