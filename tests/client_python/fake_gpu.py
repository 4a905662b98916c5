"""Stands for torch.cuda: a host that queues kernels, and a device that runs them one after the other. Times are made up,
whole nanoseconds; the host's clock is `clock`."""
import collections

QUEUED = 1024  # Kernels that a queue has room for: then the host waits.
CYCLES_OF_NS = 2


class FakeGpu:
    def __init__(self):
        self.now = self.free = 0
        self._ends = collections.deque()
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = max(gpu.now, gpu.free)

            def query(self):
                return gpu.now >= self.at

            def elapsed_time(self, end):
                return (end.at - self.at) / 1e6

        self.Event = Event

    def clock(self):
        return self.now

    def synchronize(self, device=None):
        self.now = max(self.now, self.free)

    def _sleep(self, cycles):
        self._queue(cycles // CYCLES_OF_NS)

    def kernels(self, count, host, device):
        """A work of so many kernels: each takes `host` to issue and `device` to run."""
        def run():
            for _ in range(count):
                self.now += host
                self._queue(device)
        return run

    def _queue(self, length):
        while self._ends and self._ends[0] <= self.now:
            self._ends.popleft()
        if len(self._ends) >= QUEUED:
            self.now = self._ends.popleft()
        self.free = max(self.free, self.now) + length
        self._ends.append(self.free)
