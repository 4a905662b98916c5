"""Where the time of a change of plan goes. Main thread only."""
import contextlib
import time


class SwitchPhases:
    """Nanoseconds by phase: save (the snapshot), move (state between ranks), groups (communicators), build (modules)."""

    def __init__(self):
        self.ns = {}

    @contextlib.contextmanager
    def of(self, name):
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self.ns[name] = self.ns.get(name, 0) + time.perf_counter_ns() - began
