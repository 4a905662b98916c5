"""What moves between neighbouring stages: activations on, gradients back.

Stages may have different numbers of replicas. Each replica holds a contiguous slice of the microbatch; two replicas
exchange the samples that both their slices contain. Sends do not wait; receives do.
Main thread only.
"""
import collections

import torch

from schedule import FORWARD


def slice_of(replica, replicas, microbatch):
    """[begin, end) of the microbatch's samples that this replica computes."""
    share = microbatch // replicas
    return replica * share, (replica + 1) * share


def overlaps(stage, rank, neighbour, microbatch):
    """[(peer rank, begin, end)]: the samples shared with each replica of `neighbour`, relative to rank's slice."""
    low, high = slice_of(stage.devices.index(rank), stage.replicas, microbatch)
    shared = []
    for replica, peer in enumerate(neighbour.devices):
        begin, end = slice_of(replica, neighbour.replicas, microbatch)
        begin, end = max(begin, low), min(end, high)
        if begin < end:
            shared.append((peer, begin - low, end - low))
    return shared


class StageTransfers:
    """One rank's transfers for one plan."""

    def __init__(self, plan, rank, groups, ranges, sample_shape, device):
        self._groups, self._ranges, self._device = groups, ranges, device
        stage = plan.stage_of_rank(rank)
        self._samples = plan.microbatch // stage.replicas
        self._sample_shape = sample_shape
        self._eager = plan.eager
        count = len(plan.stages)
        self.has_previous, self.has_next = stage.index > 0, stage.index < count - 1
        self._previous = self._next = ()
        if self.has_previous:
            self._previous = overlaps(stage, rank, plan.stages[stage.index - 1], plan.microbatch)
        if self.has_next:
            self._next = overlaps(stage, rank, plan.stages[stage.index + 1], plan.microbatch)
        # When the stage before does forward j it has done all backwards before j - lag (its warm-up's length).
        self._lag = min(count - stage.index, plan.microbatches)
        self._posted = {}
        self._sent_forward = collections.deque()
        self._sent_backward = collections.deque()

    def post(self, kind, microbatch):
        """Announce the next receive early where the plan's transfers are eager; else it happens in receive()."""
        if self._eager and self._needs(kind):
            self._posted[kind, microbatch] = self._begin_receive(kind, microbatch)

    def receive(self, kind, microbatch):
        """The activation (forward) or gradient (backward) for this rank's slice, or None at the pipeline's ends."""
        if not self._needs(kind):
            return None
        tensor, works = self._posted.pop((kind, microbatch), None) or self._begin_receive(kind, microbatch)
        with self._ranges.range("transfer/recv", tensor.numel() * tensor.element_size()):
            for work in works:
                work.wait()
        self._release(kind, microbatch)
        return tensor

    def send(self, kind, microbatch, tensor):
        """Start sending; the tensor is kept until its peers have it and must not be written to."""
        peers = self._next if kind == FORWARD else self._previous
        if not peers:
            return
        tensor = tensor.contiguous()
        with self._ranges.range("transfer/send", tensor.numel() * tensor.element_size()):
            works = [self._groups.send(tensor[begin:end], peer, kind, microbatch) for peer, begin, end in peers]
        kept = self._sent_forward if kind == FORWARD else self._sent_backward
        kept.append((microbatch, tensor, works))

    def finish(self):
        """Wait until every send of the step is complete."""
        _drain(self._sent_forward, None)
        _drain(self._sent_backward, None)

    def _needs(self, kind):
        return bool(self._previous if kind == FORWARD else self._next)

    def _begin_receive(self, kind, microbatch):
        peers = self._previous if kind == FORWARD else self._next
        tensor = torch.empty((self._samples, *self._sample_shape), device=self._device)
        works = [self._groups.receive(tensor[begin:end], peer, kind, microbatch) for peer, begin, end in peers]
        return tensor, works

    def _release(self, kind, microbatch):
        """Drop sent tensors that the schedule proves to be received. Gloo cannot say so without waiting."""
        if kind == FORWARD:
            _drain(self._sent_backward, microbatch - self._lag)
        else:
            _drain(self._sent_forward, microbatch + 1)


def _drain(sent, before):
    while sent and (before is None or sent[0][0] < before):
        for work in sent.popleft()[2]:
            work.wait()
