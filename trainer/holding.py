"""What one rank holds of one operator under a plan: which of its elements, and in which buffers. Pure.

An operator's elements are numbered through its parameters in the order of model.parameters_of(). A rank computes with
its tensor-parallel share of them (`local`). Where the optimizer's states are sharded, `local` is divided evenly over
the `degree` ranks of a shard group, padded to a multiple of it, and the rank updates the elements it owns.
"""
import dataclasses
import functools

import intervals
from model import parameters_of

ELEMENT_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Holding:
    local: tuple  # Intervals of elements that the rank computes with.
    level: str  # none | optimizer | gradients | parameters
    degree: int  # Ranks that share one copy of the optimizer's states; 1 where they are not sharded.
    shard: int  # This rank's place among them.
    unique: tuple  # Intervals of owned elements for which no other rank answers: snapshots and norms count these.
    offload: bool = False  # The moments wait on the host.
    lazy: bool = False  # The kept values too, between the passes that use them.
    offload_gradient: bool = False  # And the summed gradient, which each pass adds to there.

    @property
    def count(self):
        return intervals.size(self.local)

    @property
    def piece(self):
        """Elements of one shard, padding included."""
        return -(-self.count // self.degree)

    @property
    def own(self):
        """Where this rank's piece lies among all that is padded."""
        return slice(self.shard * self.piece, (self.shard + 1) * self.piece)

    @property
    def padded(self):
        return self.piece * self.degree

    @functools.cached_property
    def owned(self):
        """Intervals of elements whose moments this rank keeps and which it updates."""
        return intervals.cut(self.local, self.own.start, self.own.stop)

    @property
    def shards_parameters(self):
        return self.level == "parameters"

    @property
    def shards_gradients(self):
        return self.level in ("gradients", "parameters")

    @property
    def released(self):
        """Do the parameters that a pass computes with exist only around it?"""
        return self.shards_parameters or self.lazy

    @property
    def passes_own_gradient(self):
        """Does each pass have a gradient of its own, which then goes elsewhere?"""
        return self.shards_gradients or self.offload_gradient

    @property
    def parameters(self):
        """Intervals of elements whose values the rank keeps between passes."""
        return self.owned if self.shards_parameters else self.local

    @property
    def parameter_elements(self):
        """Length of the buffer of kept values."""
        return self.piece if self.shards_parameters else self.padded

    def same_buffers(self, other):
        """Do the two keep the same values and moments in the same places?"""
        return (self.local, self.shards_parameters, self.degree, self.shard, self.offload, self.lazy) == (
            other.local, other.shards_parameters, other.degree, other.shard, other.offload, other.lazy)

    @property
    def state_bytes(self):
        """Of values and moments: what outlives a change of plan."""
        return ELEMENT_BYTES * (self.parameter_elements + 2 * self.piece)

    @property
    def held_bytes(self):
        """The same with the gradients that a training rank keeps resident."""
        return self.state_bytes + self._gradient_bytes

    @property
    def host_state_bytes(self):
        """Of `state_bytes`, what is on the host."""
        return ELEMENT_BYTES * ((2 * self.piece if self.offload else 0) + (self.parameter_elements if self.lazy else 0))

    @property
    def host_bytes(self):
        """Of `held_bytes`, what is on the host."""
        return self.host_state_bytes + (self._gradient_bytes if self.offload_gradient else 0)

    @property
    def _gradient_bytes(self):
        return ELEMENT_BYTES * (self.piece if self.shards_gradients else self.padded)


def local_elements(spec, config, tensor_ranks, tensor_rank):
    """Intervals of the elements that one of `tensor_ranks` ranks computes with."""
    result, begin = [], 0
    for parameter in parameters_of(spec, config):
        end = begin + parameter.count
        if parameter.split:
            share = parameter.count // tensor_ranks
            result.append((begin + tensor_rank * share, begin + (tensor_rank + 1) * share))
        else:
            result.append((begin, end))
        begin = end
    return intervals.joined(result)


def alone(spec, config, tensor_ranks=1, tensor_rank=0):
    """The holding of a single replica."""
    local = local_elements(spec, config, tensor_ranks, tensor_rank)
    return Holding(local, "none", 1, 0, local)


@functools.lru_cache(maxsize=1 << 12)
def _holding(config, spec, segment, place, answers):
    local = local_elements(spec, config, segment.tp, place.tensor_rank)
    shard = segment.shard_members(place).index(segment.rank_at(place))
    level = segment.level_of(spec.index)
    # What several copies sum stays where they sum it.
    summed_once = segment.dp == 1 or (level in ("gradients", "parameters") and segment.degree == segment.dp)
    holding = Holding(local, level, segment.degree, shard, (), segment.offload_optimizer, spec.index in segment.lazy,
                      segment.offload_optimizer and summed_once)
    if not answers:
        return holding
    unique = holding.owned
    if place.tensor_rank > 0:  # What is not split is the same on all ranks of the replica; the first one answers.
        whole, begin = [], 0
        for parameter in parameters_of(spec, config):
            if not parameter.split:
                whole.append((begin, begin + parameter.count))
            begin += parameter.count
        unique = intervals.without(unique, whole)
    return dataclasses.replace(holding, unique=unique)


def of_rank(plan, rank, spec, config):
    """The rank's Holding of the operator, or None where it has no part in it."""
    stage = plan.stage_of_operator(spec.index)
    if rank not in stage.devices:
        return None
    segment = stage.segment_of_operator(spec.index)
    place = segment.place_of(rank)
    copies = segment.dp // segment.degree
    answers = place.replica // segment.degree == spec.index % copies  # Spread over the copies.
    return _holding(config, spec, segment, place, answers)
