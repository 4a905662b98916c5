"""What moves between neighbouring stages: activations on, gradients back.

Stages may have different numbers of replicas, and of ranks in each; layout_change.py says who sends what to whom. Each
part of a microbatch is its own messages. Sends do not wait; receives do. Main thread only.
"""
import collections

import torch

from layout_change import messages, samples_of
from schedule import BACKWARD, FORWARD, order_of


class _Neighbour:
    """One rank's messages to or from one neighbouring stage, for one direction of passes."""

    def __init__(self, have, want, rank):
        self._have, self._want, self._rank = have, want, rank

    def sends(self, samples):
        """[(peer, begin, end)] relative to this rank's samples."""
        low = samples_of(self._have, self._rank, samples)[0]
        return [(peer, begin - low, end - low) for source, peer, begin, end in self._routes(samples)
                if source == self._rank]

    def receives(self, samples):
        low = samples_of(self._want, self._rank, samples)[0]
        return [(peer, begin - low, end - low) for peer, destination, begin, end in self._routes(samples)
                if destination == self._rank]

    def held(self, samples):
        """How many of a part's samples the receiving rank has."""
        return samples // self._want.replicas

    def _routes(self, samples):
        return messages(self._have, self._want, samples)


class StageTransfers:
    """One rank's transfers to and from one of its stages for one plan."""

    def __init__(self, plan, stage, rank, groups, ranges, config, device):
        self._plan, self._stage, self._groups, self._ranges, self._device = plan, stage, groups, ranges, device
        self._sample_shape = (config.sequence // stage.segments[0].parts, config.hidden)
        self._dtype, count = config.dtype, len(plan.stages)
        self._from, self._to = {}, {}  # Kind of pass -> _Neighbour.
        if stage.index > 0:
            self._connect(plan.stages[stage.index - 1], stage, rank, self._from, self._to)
        if stage.index < count - 1:
            self._connect(plan.stages[stage.index + 1], stage, rank, self._from, self._to)
        self._done_before = self._backwards_before_forwards(plan, stage.index - 1) if stage.index else ()
        self._posted = {}
        self._sent_forward = collections.deque()
        self._sent_backward = collections.deque()

    @staticmethod
    def _backwards_before_forwards(plan, stage):
        """Of each of the stage's forwards: how many of its backwards its ranks do before."""
        order = order_of(plan.schedule, stage % plan.seats, plan.seats, len(plan.stages), plan.microbatches)
        kinds = [kind for kind, of, _ in order if of == stage]
        return [kinds[:place].count(BACKWARD) for place, kind in enumerate(kinds) if kind == FORWARD]

    @staticmethod
    def _connect(neighbour, stage, rank, receives, sends):
        if neighbour.index < stage.index:
            receives["forward"] = _Neighbour(neighbour.segments[-1], stage.segments[0], rank)
            sends["backward"] = _Neighbour(stage.segments[0], neighbour.segments[-1], rank)
        else:
            sends["forward"] = _Neighbour(stage.segments[-1], neighbour.segments[0], rank)
            receives["backward"] = _Neighbour(neighbour.segments[0], stage.segments[-1], rank)

    def post(self, action):
        """Announce the action's receives early where the plan's transfers are eager; else it happens in receive()."""
        if self._plan.schedule.eager and action.kind in self._from:
            for parts in action.batches:
                key = (action.kind, action.microbatch, parts)
                self._posted[key] = self._begin_receive(*key)

    def receive(self, kind, microbatch, parts):
        """The activation (forward) or gradient (backward) of this rank's samples, or None at the pipeline's ends."""
        if kind not in self._from:
            return None
        key = (kind, microbatch, parts)
        tensor, works = self._posted.pop(key, None) or self._begin_receive(*key)
        with self._ranges.range("transfer/recv", tensor.numel() * tensor.element_size()):
            for work in works:
                work.wait()
        self._release(kind, microbatch)
        return tensor

    def send(self, kind, microbatch, parts, tensor):
        """Start sending; the tensor is kept until its peers have it and must not be written to."""
        if kind not in self._to:
            return
        tensor = tensor.contiguous()
        routes = self._to[kind].sends(self._plan.part_of(microbatch))
        with self._ranges.range("transfer/send", tensor.numel() * tensor.element_size()):
            works = [self._groups.send(piece[begin:end], peer, *self._way(kind, FORWARD, microbatch, part))
                     for part, piece in zip(parts, tensor.chunk(len(parts))) for peer, begin, end in routes]
        kept = self._sent_forward if kind == FORWARD else self._sent_backward
        kept.append((microbatch, tensor, works))

    def finish(self):
        """Wait until every send of the step is complete."""
        _drain(self._sent_forward, None)
        _drain(self._sent_backward, None)

    def _way(self, kind, towards_next, microbatch, part):
        """(pass, does it lead from the last ranks to the first or back, tag) of a message over one of the stage's ends: to the
        next stage if the pass is `towards_next`."""
        before = self._stage.index - (kind != towards_next)
        turn = (2 * before + (kind == BACKWARD)) * self._plan.microbatches + microbatch
        return kind, before % self._plan.seats == self._plan.seats - 1, turn * self._plan.schedule.parts + part

    def _begin_receive(self, kind, microbatch, parts):
        samples = self._plan.part_of(microbatch)
        neighbour = self._from[kind]
        held = neighbour.held(samples)
        tensor = torch.empty((held * len(parts), *self._sample_shape), dtype=self._dtype, device=self._device)
        works = [self._groups.receive(piece[begin:end], peer, *self._way(kind, BACKWARD, microbatch, part))
                 for part, piece in zip(parts, tensor.split(held))
                 for peer, begin, end in neighbour.receives(samples)]
        return tensor, works

    def _release(self, kind, microbatch):
        """Drop sent tensors that the schedule proves to be received. Gloo cannot say so without waiting."""
        if kind == FORWARD:
            _drain(self._sent_backward, self._done_before[microbatch])
        else:
            _drain(self._sent_forward, microbatch + 1)


def _drain(sent, before):
    while sent and (before is None or sent[0][0] < before):
        for work in sent.popleft()[2]:
            work.wait()
