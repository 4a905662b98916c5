"""A live change of plan: which elements of which operator go where, what that costs in memory, and the move itself.

Operators move one after the other, each rank's messages in one order that all ranks share, each with a blocking send
and receive: no cycle of waiting exists, and no rank holds more than one operator twice. Who sends what is a pure
function of the two plans. Main thread only.
"""
import contextlib
import dataclasses
import time

import torch

import intervals
from holding import ELEMENT_BYTES, of_rank
from memory import give_back_freed
from operator_state import MOMENTS, Values


class ChangePhases:
    """Where the time of a change goes, in nanoseconds: save (the snapshot), move (state between ranks), groups
    (communicators), build (modules)."""

    def __init__(self):
        self.ns = {}

    @contextlib.contextmanager
    def of(self, name):
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.ns[name] = self.ns.get(name, 0) + time.perf_counter_ns() - began


@dataclasses.dataclass(frozen=True)
class Message:
    """Elements of one operator that a rank needs under the new plan and did not hold."""

    source: int
    destination: int
    parameters: tuple  # Intervals of elements whose values go,
    moments: tuple  # and of those whose moments go.

    @property
    def elements(self):
        return intervals.size(self.parameters) + MOMENTS * intervals.size(self.moments)


def messages(old, new, spec, config):
    """The Messages of one operator, in order. What a rank holds under both plans it keeps."""
    before = {rank: of_rank(old, rank, spec, config) for rank in old.stage_of_operator(spec.index).devices}
    result = []
    for place, destination in enumerate(new.stage_of_operator(spec.index).devices):
        after = of_rank(new, destination, spec, config)
        parameters, moments = after.parameters, after.owned
        if destination in before:
            parameters = intervals.without(parameters, before[destination].parameters)
            moments = intervals.without(moments, before[destination].owned)
        for source in _rotated(list(before), spec.index + place):  # Spread over those who hold the same.
            from_here = Message(source, destination, intervals.intersection(parameters, before[source].parameters),
                                intervals.intersection(moments, before[source].owned))
            if from_here.elements:
                result.append(from_here)
            parameters = intervals.without(parameters, from_here.parameters)
            moments = intervals.without(moments, from_here.moments)
        assert not parameters and not moments, f"{spec.name}: nobody holds {parameters or moments}"
    return result


def _rotated(ranks, by):
    by %= len(ranks)
    return ranks[by:] + ranks[:by]


def peak_state_bytes(old, new, rank, specs, config, host_apart=False):
    """The most bytes of operator state that `rank` holds at any moment of the change, and under the new plan.

    `host_apart`: what waits on the host is in a memory of its own, which does not count.
    """
    # Gradients are dropped first and made anew last.
    held = [of_rank(new, rank, spec, config) for spec in specs]
    settled = sum(settled_bytes(holding, host_apart) for holding in held if holding)
    return max(peak_of_move(old, new, rank, specs, config, host_apart), settled), settled


def settled_bytes(holding, host_apart):
    return holding.held_bytes - (holding.host_bytes if host_apart else 0)


def _moving_bytes(holding, host_apart):
    return holding.state_bytes - (holding.host_state_bytes if host_apart else 0)


def peak_of_move(old, new, rank, specs, config, host_apart=False):
    """The most bytes of values, moments and messages that `rank` holds while they move."""
    before = [of_rank(old, rank, spec, config) for spec in specs]
    after = [of_rank(new, rank, spec, config) for spec in specs]
    now = peak = sum(_moving_bytes(holding, host_apart) for holding in before if holding)
    for spec, leaves, comes in zip(specs, before, after):
        if leaves and comes and leaves.same_buffers(comes):
            leaves = comes = None
        in_hand = [message.elements for message in messages(old, new, spec, config)
                   if rank in (message.source, message.destination)]
        now += _moving_bytes(comes, host_apart) if comes else 0
        peak = max(peak, now + ELEMENT_BYTES * max(in_hand, default=0))
        now -= _moving_bytes(leaves, host_apart) if leaves else 0
    return peak


def move_values(old, new, rank, specs, config, groups, values, device, faults, step):
    """Bring `values` (operator -> Values of this rank) from the old plan to the new.

    What this rank no longer needs is freed as the move goes. A failure in the middle leaves no usable state behind;
    the snapshot written before is what remains.
    """
    for spec in specs:
        if spec.index == len(specs) // 2:
            faults.reach("moving", step)
        here, wanted = values.pop(spec.index, None), of_rank(new, rank, spec, config)
        fresh = _carried_over(here, wanted, device)
        moved = here is not fresh
        for message in messages(old, new, spec, config):
            if rank == message.source:
                groups.send_state(_packed(here, message, device), message.destination)
            elif rank == message.destination:
                _receive(message, fresh, groups, device)
            if rank in (message.source, message.destination):
                give_back_freed()  # What an allocator keeps counts as held.
        if fresh is not None:
            values[spec.index] = fresh
        del here, fresh
        if moved:
            give_back_freed()


def _carried_over(here, wanted, device):
    """The Values of the new plan with what this rank held before; None where it holds nothing under it."""
    if wanted is None:
        return None
    if here is not None and here.holding.same_buffers(wanted):
        here.holding = wanted
        return here
    fresh = Values(wanted, device)
    if here is not None:
        for to, at, length in intervals.common(wanted.parameters, here.holding.parameters):
            fresh.parameters[to : to + length] = here.parameters[at : at + length]
        for to, at, length in intervals.common(wanted.owned, here.holding.owned):
            fresh.moments[:, to : to + length] = here.moments[:, at : at + length]
    return fresh


def _pieces(values, message):
    """Views of the message's elements in `values`, in the order in which they travel."""
    for at, _, length in intervals.common(values.holding.parameters, message.parameters):
        yield values.parameters[at : at + length]
    for row in values.moments:
        for at, _, length in intervals.common(values.holding.owned, message.moments):
            yield row[at : at + length]


def _packed(values, message, device):
    """On the device: parts of them may wait on the host."""
    return torch.cat([piece.to(device) for piece in _pieces(values, message)])


def _receive(message, values, groups, device):
    packed = torch.empty(message.elements, device=device)
    groups.receive_state(packed, message.source)
    position = 0
    for piece in _pieces(values, message):
        piece.copy_(packed[position : position + len(piece)])
        position += len(piece)
