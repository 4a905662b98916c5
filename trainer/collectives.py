"""Collectives of one group of ranks, and the ranges that say how long they take.

Gloo as Debian builds it has no reduce-scatter: there it is composed of one message to every other rank and a sum in
the order of ranks. That moves what a reduce-scatter moves, (n - 1) / n of the tensor out of and into each rank, and
needs a second buffer of that size while it lasts; an all-reduce in its place would move twice as much. Its all-gather
goes through a copy of all outputs: the same messages without the sum move as much and need no memory.

Threads: calls on the main thread (a backward pass on a GPU: autograd's). Where ranges are recorded on a CPU, one
further thread, `collective-ranges`, waits for collectives in the order of their launch so that a range lasts from
issue to completion; it ends with the process (a daemon).
"""
import contextlib
import queue
import threading

import torch
import torch.distributed as dist


# What a group is for: what a pass waits for must not queue behind gradients, so the same ranks have one for each.
TENSOR, DATA = "tensor", "data"


class Group:
    """Some ranks that communicate; `members` are ascending, and pieces lie in their order."""

    def __init__(self, group, members, rank, native):
        self._group, self._native = group, native
        self.members = tuple(members)
        self.size, self.index = len(members), self.members.index(rank)

    def all_reduce(self, tensor, operation=dist.ReduceOp.SUM):
        """In place; returns the work to wait for, as the others do."""
        if not self._native and tensor.dtype == torch.bfloat16:
            return _WideAllReduce(self._group, tensor, operation)
        return dist.all_reduce(tensor, operation, group=self._group, async_op=True)

    def all_gather(self, outputs, tensor):
        """`outputs`: one tensor for each member, of the shape of `tensor`, which may be this rank's."""
        if self._native:
            return dist.all_gather(outputs, tensor, group=self._group, async_op=True)
        return self.all_to_all(outputs, [tensor] * self.size)

    def all_to_all(self, outputs, pieces):
        """As messages: each member's piece of `pieces` to its place in the others' `outputs`. This rank's own may be there."""
        if outputs[self.index].data_ptr() != pieces[self.index].data_ptr():
            outputs[self.index].copy_(pieces[self.index])
        return Messages(self.exchange(self.with_others(pieces), self.with_others(outputs)))

    def with_others(self, pieces):
        """[(piece, rank)] of the other members."""
        return [(pieces[place], rank) for place, rank in enumerate(self.members) if place != self.index]

    def reduce_scatter(self, tensor):
        """The sum of piece `index` of everyone's flat `tensor` in its place; the other pieces are undefined after."""
        if self._native:
            pieces = tensor.view(self.size, -1)
            return dist.reduce_scatter_tensor(pieces[self.index], tensor, group=self._group, async_op=True)
        return _ReduceScatter(self, tensor)

    def broadcast(self, tensor, source):
        """`source` is a rank of the job."""
        return dist.broadcast(tensor, source, group=self._group, async_op=True)

    def exchange(self, sends, receives):
        """Several messages at once: [(tensor, rank)] each way, one a pair of ranks. Returns the works."""
        if self._native:  # NCCL runs messages that are not issued together one after the other.
            operations = [dist.P2POp(dist.irecv, tensor, rank, self._group) for tensor, rank in receives]
            operations += [dist.P2POp(dist.isend, tensor, rank, self._group) for tensor, rank in sends]
            return dist.batch_isend_irecv(operations) if operations else []
        works = [dist.irecv(tensor, rank, group=self._group) for tensor, rank in receives]
        return works + [dist.isend(tensor, rank, group=self._group) for tensor, rank in sends]


class Messages:
    """A collective composed of messages. wait() may be called by two threads; the first does the work."""

    def __init__(self, works):
        self._works = works
        self._lock, self._error = threading.Lock(), None

    def wait(self):
        with self._lock:
            if self._works is not None:
                try:
                    self._complete(self._works)
                except RuntimeError as error:
                    self._error = error
                self._works = None
            if self._error is not None:
                raise self._error

    def _complete(self, works):
        for work in works:
            work.wait()


class _WideAllReduce(Messages):
    """Gloo does not add bfloat16: the sum is one of float32."""

    def __init__(self, group, tensor, operation):
        self._tensor, self._wide = tensor, tensor.float()
        super().__init__([dist.all_reduce(self._wide, operation, group=group, async_op=True)])

    def _complete(self, works):
        super()._complete(works)
        self._tensor.copy_(self._wide)
        self._tensor = self._wide = None


class _ReduceScatter(Messages):
    def __init__(self, group, tensor):
        self._pieces, self._index = tensor.view(group.size, -1), group.index
        self._received = torch.empty((group.size - 1, self._pieces.shape[1]), dtype=tensor.dtype, device=tensor.device)
        sends = group.with_others(self._pieces)
        super().__init__(group.exchange(sends, [(row, rank) for row, (_, rank) in zip(self._received, sends)]))

    def _complete(self, works):
        super()._complete(works)
        own = self._pieces[self._index]
        parts = [*self._received[: self._index], own, *self._received[self._index :]]
        total = parts[0].float()  # Itself, where it is float32.
        for part in parts[1:]:
            total.add_(part)
        if total is not own:
            own.copy_(total)
        self._pieces = self._received = None


class NoRanges:
    """Nothing is recorded."""

    active = False

    def range(self, name, payload=0):
        return contextlib.nullcontext()


class Launcher:
    """Starts collectives and opens their ranges. One for each pipeline."""

    def __init__(self, ranges, device):
        self.ranges, self._watched = ranges, device.type == "cpu"

    def range(self, name, tensor):
        """Around a collective that is waited for; `tensor` is the rank's input."""
        return self.ranges.range(name, tensor.numel() * tensor.element_size())

    def launch(self, name, tensor, start):
        """start() begins a collective; returns its work, to be waited for later."""
        if not self._watched:
            # On a GPU waiting only orders streams; the collective's own profiler has its duration.
            with self.range(name, tensor):
                return start()
        work = start()
        if self.ranges.active:
            _Watcher.shared().watch(self.ranges, name, tensor.numel() * tensor.element_size(), work)
        return work


class _Watcher:
    """One thread a process: plans come and go, their collectives are few."""

    _shared = None

    def __init__(self):
        self._queue = queue.SimpleQueue()
        threading.Thread(target=self._run, name="collective-ranges", daemon=True).start()

    @classmethod
    def shared(cls):
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def watch(self, ranges, name, bytes_, work):
        self._queue.put((ranges, name, bytes_, work))

    def _run(self):
        while True:
            ranges, name, bytes_, work = self._queue.get()
            with ranges.range(name, bytes_):
                try:
                    work.wait()
                except RuntimeError:
                    pass  # The main thread waits for the same work and reports the failure.
            del work  # It holds tensors.
