"""What moves between two operators of one stage whose segments place samples on ranks in different ways.

Between operators a tensor is whole on every rank of a replica. Where every rank needs only samples that it has, it
cuts them out. Where replicas become fewer and wider, ranks of different replicas all-gather what their new replica
lacks; anything else is an exchange of messages among the stage's ranks, an all-to-all in effect. The gradient takes the
same way backwards. Main thread only.

Which samples a rank has, and who sends them to whom, between stages too: replica i of a segment has the i-th of equal
slices of a batch, on all its ranks. Where those share sequences, each has a part of the slice's. Then all segments of a
plan are divided alike, so that a part goes to the rank that wants that very part, and nothing moves inside a stage.
"""
import functools

import torch

from collectives import TENSOR
from plan import Place


def samples_of(segment, rank, samples):
    """[begin, end) of `samples` samples that are this rank's."""
    share = samples // segment.replicas
    replica = segment.place_of(rank).replica // segment.cp
    return replica * share, (replica + 1) * share


@functools.lru_cache(maxsize=4096)
def messages(have, want, samples):
    """((source, destination, begin, end)): the samples of `want` that a rank lacks, each from one rank that has them.

    The segments may be of one stage or of two. A replica's ranks share its sending: rank t of a receiving replica is
    served by rank t modulo the number of senders."""
    result = []
    for destination in want.devices:
        low, high = samples_of(want, destination, samples)
        own = have.place_of(destination).replica // have.cp if destination in have.devices else None
        place = want.place_of(destination)
        spread, part = place.tensor_rank % have.tp, place.replica % have.cp
        share = samples // have.replicas
        for replica in range(low // share, (high - 1) // share + 1):
            if replica != own:
                begin, end = max(replica * share, low), min((replica + 1) * share, high)
                result.append((have.rank_at(Place(replica * have.cp + part, spread)), destination, begin, end))
    return tuple(result)


def groups_of(have, want):
    """The groups of ranks that communicate when samples lie as in `have` and are wanted as in `want`."""
    if not _anything_lacks(have, want):
        return []
    gathers = gather_groups(have, want)
    return [tuple(sorted(members)) for members in gathers] if gathers else [tuple(sorted(have.devices))]


def gather_groups(have, want):
    """Groups in whose all-gathers every rank gets what it lacks and nothing else; None where there are none.

    Members are in the order of their samples."""
    groups = []
    unit = have.dp * want.dp  # As many samples as both divide.
    for replica in range(want.dp):
        ranks = [rank for rank in want.devices if want.place_of(rank).replica == replica]
        needed = samples_of(want, ranks[0], unit)
        of_replica = {}
        for rank in ranks:
            of_replica.setdefault(samples_of(have, rank, unit), []).append(rank)
        parts = sorted(of_replica)
        touching = all(left[1] == right[0] for left, right in zip(parts, parts[1:]))
        alike = len({len(members) for members in of_replica.values()}) == 1
        if not touching or not alike or (parts[0][0], parts[-1][1]) != needed:
            return None
        groups += zip(*(of_replica[part] for part in parts))
    return groups


def _anything_lacks(have, want):
    unit = have.dp * want.dp
    for rank in have.devices:
        here, needed = samples_of(have, rank, unit), samples_of(want, rank, unit)
        if needed[0] < here[0] or needed[1] > here[1]:
            return True
    return False


class _Movement:
    """One direction: from the samples of `have` to those of `want`."""

    def __init__(self, have, want, rank, groups, launcher):
        self._have, self._want, self._rank, self._launcher = have, want, rank, launcher
        self._group = self._order = None
        if not _anything_lacks(have, want):
            return
        gathers = gather_groups(have, want)
        members = have.devices
        if gathers:
            members = next(group for group in gathers if rank in group)
            self._order = [sorted(members).index(member) for member in members]
        self._group = groups.group(TENSOR, tuple(sorted(members)))

    def __call__(self, tensor, parts):
        """`tensor` holds this rank's samples of each of `parts` equal parts of a batch, one after the other."""
        if parts == 1:
            return self._move(tensor)
        return torch.cat([self._move(part) for part in tensor.chunk(parts)])

    def _move(self, tensor):
        samples = len(tensor) * self._have.replicas
        here, needed = samples_of(self._have, self._rank, samples), samples_of(self._want, self._rank, samples)
        if self._group is None:
            return tensor[needed[0] - here[0] : needed[1] - here[0]]
        tensor = tensor.contiguous()
        output = torch.empty((needed[1] - needed[0], *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
        if self._order is not None:
            self._gather(output, tensor)
        else:
            self._exchange(output, tensor, here, needed, samples)
        return output

    def _gather(self, output, tensor):
        by_member = [None] * self._group.size
        for piece, member in zip(output.split(len(tensor)), self._order):
            by_member[member] = piece
        with self._launcher.range(f"comm/all_gather/{self._group.size}", tensor):
            self._group.all_gather(by_member, tensor).wait()

    def _exchange(self, output, tensor, here, needed, samples):
        begin, end = max(here[0], needed[0]), min(here[1], needed[1])
        if begin < end:
            output[begin - needed[0] : end - needed[0]] = tensor[begin - here[0] : end - here[0]]
        sends, receives = [], []
        for source, destination, begin, end in messages(self._have, self._want, samples):
            if source == self._rank:
                sends.append((tensor[begin - here[0] : end - here[0]], destination))
            elif destination == self._rank:
                receives.append((output[begin - needed[0] : end - needed[0]], source))
        with self._launcher.range(f"comm/all_to_all/{self._group.size}", tensor):
            for work in self._group.exchange(sends, receives):
                work.wait()


class LayoutChange:
    """One rank's part at the boundary of two segments."""

    def __init__(self, before, after, rank, groups, launcher):
        self.forward = _Movement(before, after, rank, groups, launcher)
        self.backward = _Movement(after, before, rank, groups, launcher)
