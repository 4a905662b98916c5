"""What the replicas of an operator say to each other: gradients summed, sharded parameters gathered.

By level of sharding (ZeRO, Rajbhandari et al. 2020), over shard groups of `degree` replicas, dp / degree copies:

    none        after the last microbatch's backward pass gradients are all-reduced over all replicas
    optimizer   then they are reduce-scattered over the shard group, and the shards all-reduced over the copies; after
                the optimizer parameters are all-gathered
    gradients   the reduce-scatter follows every microbatch's backward pass; the rest as above
    parameters  the same, and parameters are all-gathered before each pass instead, one operator ahead; operators of the
                switch `partition_parameters` too, in a segment that shards gradients

Where shares are on the host (`lazy_prefetch`) each is fetched before it is gathered, and where the optimizer is, a
microbatch's gradient leaves for the host behind its sum and is added up there.

All of it runs beside computation. At most one reduce-scatter is under way: its gradient, what it receives, and the
gradient being computed are the buffers of a stage. Main thread only.
"""
import collections

import torch

from collectives import DATA


class DataParallel:
    """One operator's groups on one rank; None where nobody else takes part."""

    def __init__(self, segment, rank, groups):
        place = segment.place_of(rank)
        self.level = segment.sharded
        self.replicas = self._group(groups, segment.data_members(place)) if self.level == "none" else None
        self.shards = self._group(groups, segment.shard_members(place))
        self.copies = self._group(groups, segment.copy_members(place)) if self.level != "none" else None
        self.whole = self._group(groups, segment.whole_members(place)) if segment.sequence else None

    @staticmethod
    def _group(groups, members):
        return groups.group(DATA, members) if len(members) > 1 else None


class GradientSync:
    """Sums gradients operator by operator while the backward pass goes on."""

    def __init__(self, parallel_of, launcher, host_copies):
        """`parallel_of`: operator index -> DataParallel."""
        self._parallel_of, self._launcher, self._copies = parallel_of, launcher, host_copies
        self._pending = []
        self._stays = None  # (state, gradient, work) of a gradient that is yet to leave for the host.
        self._leaving = collections.deque()  # (state, Leaving), in the order in which they are added up.
        self._scattering = None  # (state, gradient, work, is it the step's last) of the reduce-scatter under way.

    def finished(self, state, last):
        """The operator's backward pass for a microbatch is done; `last`: the step's last one."""
        parallel = self._parallel_of[state.spec.index]
        if parallel.level == "none":
            if state.holding.offload_gradient:
                self.leave()
                self._stays = (state, state.take_gradient(), None)
            elif last and parallel.replicas is not None:
                self._all_reduce(state.gradient, parallel.replicas)
        elif state.holding.shards_gradients:
            self._scatter(state, state.take_gradient(), parallel.shards, last)
        elif last:
            self._scatter(state, state.gradient, parallel.shards, last)

    def leave(self):
        """Begin to bring to the host what was finished last, where it waits there, behind its sum."""
        if self._stays is None:
            return
        state, gradient, work = self._stays
        self._stays = None
        self._leaving.append((state, self._copies.leave(gradient, work)))
        if work is None:
            self._arrive(all_of_them=False)

    def _arrive(self, all_of_them):
        """Add up what is on the host."""
        while self._leaving and (all_of_them or self._leaving[0][1].ready):
            state, leaving = self._leaving.popleft()
            state.gradient += leaving.get()

    def wait(self):
        """Until everything launched is complete. Raises what the process groups raise."""
        self.leave()
        self._end_scatter()
        self._arrive(all_of_them=True)
        for work in self._pending:
            work.wait()
        self._pending.clear()

    def sum_whole(self, states):
        """At the step's end, behind wait(): tensor-parallel ranks that share sequences add up what each has of its tokens."""
        of_group = {}
        for state in states:
            group = self._parallel_of[state.spec.index].whole
            if group is not None:
                of_group.setdefault(group.members, (group, []))[1].append(state.whole_part_of_gradient)
        for group, pieces in of_group.values():
            total = torch.cat(pieces)
            with self._launcher.range(f"comm/all_reduce/{group.size}", total):
                group.all_reduce(total).wait()
            for piece, summed in zip(pieces, total.split(list(map(len, pieces)))):
                piece.copy_(summed)

    def _all_reduce(self, tensor, group):
        name = f"comm/all_reduce/{group.size}"
        self._pending.append(self._launcher.launch(name, tensor, lambda: group.all_reduce(tensor)))

    def _scatter(self, state, gradient, group, last):
        self._end_scatter()
        name = f"comm/reduce_scatter/{group.size}"
        work = self._launcher.launch(name, gradient, lambda: group.reduce_scatter(gradient))
        self._scattering = (state, gradient, work, last)
        if state.holding.offload_gradient:
            self.leave()
            self._stays = (state, gradient[state.holding.own], work)

    def _end_scatter(self):
        if self._scattering is None:
            return
        state, gradient, work, last = self._scattering
        self._scattering = None
        if state.holding.offload_gradient:
            self.leave()
            self._arrive(all_of_them=False)
            return
        work.wait()
        own = state.own_gradient
        if state.holding.shards_gradients:
            own += gradient[state.holding.own]
        copies = self._parallel_of[state.spec.index].copies
        if last and copies is not None:
            self._all_reduce(own, copies)


class ParameterGather:
    """Brings the parameters of a pass together: from the host, where they wait there, and from the other replicas."""

    def __init__(self, parallel_of, launcher, host_copies):
        self._parallel_of, self._launcher, self._copies = parallel_of, launcher, host_copies
        self._prefetched, self._gathered = {}, {}  # Operator index -> Fetched, work.

    def prefetch(self, state):
        """Begin to bring this rank's share for a pass of the operator, if it waits on the host."""
        if not state.holding.lazy:
            return
        whole = None
        if not state.holding.shards_parameters:  # The share is all of them.
            state.make_room_for_parameters()
            whole = state.gathered
        self._prefetched[state.spec.index] = self._copies.fetch(state.values.own, state.device, whole)

    def gather(self, state):
        """Begin to gather what a pass of the operator needs. prefetch() comes before."""
        if not state.holding.shards_parameters:
            return
        state.make_room_for_parameters()
        share = self._prefetched.get(state.spec.index)
        if share is None:
            self._gathered[state.spec.index] = self._gather(state, state.gathered, state.values.own)
            return
        with self._copies.behind_fetches():
            self._gathered[state.spec.index] = self._gather(state, state.gathered, share.tensor)

    def wait(self, state):
        """Until what was fetched and gathered for the operator is there; its share alone is freed."""
        if state.holding.shards_parameters:
            self._gathered.pop(state.spec.index).wait()
        if state.holding.lazy:
            self._prefetched.pop(state.spec.index).wait()

    @staticmethod
    def release(state):
        """The pass is over."""
        if state.holding.released:
            state.release_parameters()

    def after_update(self, states):
        """Bring what each rank has updated to the others of its shard group."""
        works = [self._gather(state, state.values.parameters, state.values.own) for state in states
                 if state.holding.level in ("optimizer", "gradients")]
        for work in works:
            work.wait()

    def _gather(self, state, whole, own):
        group = self._parallel_of[state.spec.index].shards
        name = f"comm/all_gather/{group.size}"
        return self._launcher.launch(name, own, lambda: group.all_gather(list(whole.view(group.size, -1)), own))
