"""What the replicas of an operator say to each other: gradients summed, sharded parameters gathered.

By level of sharding (ZeRO, Rajbhandari et al. 2020), over shard groups of `degree` replicas, dp / degree copies:

    none        after the last microbatch's backward pass gradients are all-reduced over all replicas
    optimizer   then they are reduce-scattered over the shard group, and the shards all-reduced over the copies; after
                the optimizer parameters are all-gathered
    gradients   the reduce-scatter follows every microbatch's backward pass; the rest as above
    parameters  the same, and parameters are all-gathered before each pass instead, one operator ahead; operators of the
                switch `partition_parameters` too, in a segment that shards gradients

All of it runs beside computation. At most one reduce-scatter is under way: its gradient, what it receives, and the
gradient being computed are the buffers of a stage. Main thread only.
"""
from collectives import DATA


class DataParallel:
    """One operator's groups on one rank; None where nobody else takes part."""

    def __init__(self, segment, rank, groups):
        place = segment.place_of(rank)
        self.level = segment.sharded
        self.replicas = self._group(groups, segment.data_members(place)) if self.level == "none" else None
        self.shards = self._group(groups, segment.shard_members(place))
        self.copies = self._group(groups, segment.copy_members(place)) if self.level != "none" else None

    @staticmethod
    def _group(groups, members):
        return groups.group(DATA, members) if len(members) > 1 else None


class GradientSync:
    """Sums gradients operator by operator while the backward pass goes on."""

    def __init__(self, parallel_of, launcher):
        """`parallel_of`: operator index -> DataParallel."""
        self._parallel_of, self._launcher = parallel_of, launcher
        self._pending = []
        self._scattering = None  # (state, gradient, work, is it the step's last) of the reduce-scatter under way.

    def finished(self, state, last):
        """The operator's backward pass for a microbatch is done; `last`: the step's last one."""
        parallel = self._parallel_of[state.spec.index]
        if parallel.level == "none":
            if last and parallel.replicas is not None:
                self._all_reduce(state.gradient, parallel.replicas)
        elif state.holding.shards_gradients:
            self._scatter(state, state.take_gradient(), parallel.shards, last)
        elif last:
            self._scatter(state, state.gradient, parallel.shards, last)

    def wait(self):
        """Until everything launched is complete. Raises what the process groups raise."""
        self._end_scatter()
        for work in self._pending:
            work.wait()
        self._pending.clear()

    def _all_reduce(self, tensor, group):
        name = f"comm/all_reduce/{group.size}"
        self._pending.append(self._launcher.launch(name, tensor, lambda: group.all_reduce(tensor)))

    def _scatter(self, state, gradient, group, last):
        self._end_scatter()
        name = f"comm/reduce_scatter/{group.size}"
        work = self._launcher.launch(name, gradient, lambda: group.reduce_scatter(gradient))
        self._scattering = (state, gradient, work, last)

    def _end_scatter(self):
        if self._scattering is None:
            return
        state, gradient, work, last = self._scattering
        self._scattering = None
        work.wait()
        own = state.own_gradient
        if state.holding.shards_gradients:
            begin = state.holding.shard * state.holding.piece
            own += gradient[begin : begin + state.holding.piece]
        copies = self._parallel_of[state.spec.index].copies
        if last and copies is not None:
            self._all_reduce(own, copies)


class ParameterGather:
    """Brings sharded parameters together."""

    def __init__(self, parallel_of, launcher):
        self._parallel_of, self._launcher = parallel_of, launcher
        self._fetched = {}  # Operator index -> work.

    def fetch(self, state):
        """Begin to gather what a pass of the operator needs."""
        if state.holding.shards_parameters:
            state.make_room_for_parameters()
            self._fetched[state.spec.index] = self._gather(state, state.gathered)

    def wait(self, state):
        """Until what was fetched for the operator is there."""
        if state.holding.shards_parameters:
            self._fetched.pop(state.spec.index).wait()

    @staticmethod
    def release(state):
        """The pass is over."""
        if state.holding.shards_parameters:
            state.release_parameters()

    def after_update(self, states):
        """Bring what each rank has updated to the others of its shard group."""
        works = [self._gather(state, state.values.parameters) for state in states
                 if state.holding.level in ("optimizer", "gradients")]
        for work in works:
            work.wait()

    def _gather(self, state, whole):
        group = self._parallel_of[state.spec.index].shards
        own = state.values.own
        name = f"comm/all_gather/{group.size}"
        return self._launcher.launch(name, own, lambda: group.all_gather(list(whole.view(group.size, -1)), own))
