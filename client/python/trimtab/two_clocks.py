"""The clocks of a benchmark: a CPU has one, and a GPU two. A GPU does what its host has queued, and waits where its queue is
empty. So what a pass takes there says two things at once, unless it is measured behind a cover: the device is kept busy until
the host has issued everything. Then the device runs it without gaps, and the host was neither waited for nor waited itself.

Main thread only. PyTorch is given, as everywhere in this package.
"""
import time

FIRST_COVER = 1_000_000  # Cycles of the device: half a millisecond.
LONGER = 4  # Times as long, where the cover ended too soon.
ATTEMPTS = 6


class HostClock:
    """A call ends with its work."""

    def __init__(self, clock=None):
        self._clock = clock or time.perf_counter_ns

    def spans(self, *works):
        """Do the works in order; the nanoseconds that each took, a list."""
        return [self._issue(work) for work in works]

    def costs(self, keys, columns):
        """(cost key, values) of what spans() gave for these keys, time after time."""
        return list(zip(keys, columns))

    def _issue(self, work):
        begin = self._clock()
        work()
        return self._clock() - begin


class TwoClocks(HostClock):
    """Of works that are queued on the device's current stream."""

    def __init__(self, torch, device, launched_as="", clock=None):
        """`launched_as`: "compiled" or "graph" where kernels are not launched one by one (launched_as())."""
        super().__init__(clock)
        self._cuda, self._device, self._launched_as = torch.cuda, device, launched_as
        self._cycles, self._attempts = FIRST_COVER, ATTEMPTS

    def spans(self, *works):
        """Do the works in order, once or several times; the nanoseconds that the device took for each, then those that the
        host took to issue each. Works that wait for the device have no cover: the host's are 0 then."""
        for _ in range(self._attempts):
            device, host, covered = self._measured(works)
            if covered:
                return device + host
            self._cycles *= LONGER
        self._cycles, self._attempts = FIRST_COVER, 1
        return device + [0] * len(works)

    def costs(self, keys, columns):
        """The host's are costs of the same passes with algorithm "launch" (docs/protocols.md, "Cost kinds")."""
        way = {"algorithm": "launch", **({"protocol": self._launched_as} if self._launched_as else {})}
        launches = [({**key, **way}, values) for key, values in zip(keys, columns[len(keys):]) if all(values)]
        return super().costs(keys, columns) + launches

    def _measured(self, works):
        marks = [self._cuda.Event(enable_timing=True) for _ in range(len(works) + 1)]
        self._cuda.synchronize(self._device)  # Nothing is queued: the host finds room.
        self._cuda._sleep(self._cycles)
        marks[0].record()
        host = []
        for work, mark in zip(works, marks[1:]):
            host.append(self._issue(work))
            mark.record()
        covered = not marks[0].query()
        self._cuda.synchronize(self._device)
        return [round(1e6 * begin.elapsed_time(end)) for begin, end in zip(marks, marks[1:])], host, covered


def clocks_of(torch, device, module=None):
    """What measures works on the device; `module`: whose passes they are."""
    if device.type != "cuda":
        return HostClock()
    return TwoClocks(torch, device, launched_as(module))


def clock_of_key(key, device):
    """Which clock timed a cost, as a benchmark's answer says it."""
    return "device" if device.type == "cuda" and key.get("algorithm") != "launch" else "host"


def launched_as(module):
    """How PyTorch has wrapped a module: by torch.compile, by torch.cuda.make_graphed_callables, or not at all."""
    own = vars(module) if module is not None else {}
    if "_orig_mod" in own or "_orig_mod" in own.get("_modules", {}):
        return "compiled"
    return "graph" if "make_graphed_callables" in getattr(own.get("forward"), "__qualname__", "") else ""
