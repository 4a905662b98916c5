"""Gradient all-reduce over a stage's replicas, launched operator by operator while the backward goes on.

Threads: launch() and wait() on the main thread. With Gloo one further thread, `gradient-ranges`, waits for each
all-reduce in order so that its range lasts from issue to completion; it touches no tensor. It ends with the process
(a daemon) or at close().
"""
import queue
import threading


class GradientSync:
    def __init__(self, group, replicas, ranges, device):
        """`group` is None where the stage has one replica; then nothing happens."""
        self._group, self._ranges, self._replicas = group, ranges, replicas
        self._watched = device.type == "cpu"
        self._pending = []

    def launch(self, state):
        """The operator's gradient is complete on this rank: sum it over the replicas."""
        if self._group is None:
            return
        bytes_ = state.gradient.numel() * state.gradient.element_size()
        name = f"comm/all_reduce/{self._replicas}"
        if not self._watched:
            # On a GPU the wait below only orders streams; the collective's own profiler has its duration.
            with self._ranges.range(name, bytes_):
                self._pending.append(self._group.all_reduce(state.gradient))
            return
        work = self._group.all_reduce(state.gradient)
        self._pending.append(work)
        if self._ranges.active:
            _Watcher.shared().watch(self._ranges, name, bytes_, work)

    def wait(self):
        """Until all launched all-reduces are complete. Raises what the process group raises."""
        for work in self._pending:
            work.wait()
        self._pending.clear()


class _Watcher:
    """One thread a process: plans come and go, their all-reduces are few."""

    _shared = None

    def __init__(self):
        self._queue = queue.SimpleQueue()
        threading.Thread(target=self._run, name="gradient-ranges", daemon=True).start()

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
