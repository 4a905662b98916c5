"""Which samples of a batch a rank has, and who sends them to whom when they are wanted elsewhere. Pure.

Replica i of a segment has the i-th of dp equal slices of a batch, on all its ranks.
"""
import functools

from plan import Place


def samples_of(segment, rank, samples):
    """[begin, end) of `samples` samples that are this rank's."""
    share = samples // segment.dp
    replica = segment.place_of(rank).replica
    return replica * share, (replica + 1) * share


@functools.lru_cache(maxsize=4096)
def messages(have, want, samples):
    """((source, destination, begin, end)): the samples of `want` that a rank lacks, each from one rank that has them.

    The segments may be of one stage or of two. A replica's ranks share its sending: rank t of a receiving replica is
    served by rank t modulo the number of senders."""
    result = []
    for destination in want.devices:
        low, high = samples_of(want, destination, samples)
        own = have.place_of(destination).replica if destination in have.devices else None
        spread = want.place_of(destination).tensor_rank % have.tp
        share = samples // have.dp
        for replica in range(low // share, (high - 1) // share + 1):
            if replica != own:
                begin, end = max(replica * share, low), min((replica + 1) * share, high)
                result.append((have.rank_at(Place(replica, spread)), destination, begin, end))
    return tuple(result)
