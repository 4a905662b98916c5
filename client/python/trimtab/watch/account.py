"""Where one thread's time goes: each moment counts for the innermost part that is open, so parts never add up to more.

A part is opened with enter() and closed with leave() of what enter() returned. What is still open inside (an exception
went by its end) is closed with it. Ranges are closed with their part. One thread.
"""
import os
import time

from ..descriptors import above_standard_streams

OTHER, DATA, FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, COMMUNICATION, ASIDE = range(8)
NAMES = ("other", "data", "forward", "backward", "recompute", "optimizer", "communication", "aside")

_PASSES = (FORWARD, BACKWARD, OPTIMIZER)
_NOT_STOLEN = (DATA, COMMUNICATION, ASIDE)  # What the thread misses in these is not told.

# What cannot run inside of these: one that is still open there was left by an exception.
_STALE = {
    DATA: (FORWARD, BACKWARD, OPTIMIZER),
    FORWARD: (DATA,),
    BACKWARD: (DATA, FORWARD),
    OPTIMIZER: (DATA, FORWARD),
}


class ThreadStolen:
    """A clock of the thread that made it, which runs while that is ready to run but has no CPU, in nanoseconds. Linux.

    Its descriptor stays open: by its end the number may be another file's of the job. Reading at a place does nothing to
    that, and what it says is not believed (OSError, ValueError). To look which file it is would cost as much again.
    """

    def __init__(self):
        self._descriptor = above_standard_streams(os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC))

    def __call__(self):
        _, stolen, _ = map(int, os.pread(self._descriptor, 64, 0).split())
        return stolen


def thread_stolen():
    """Such a clock; None where the kernel does not say."""
    try:
        clock = ThreadStolen()
        clock()
    except (OSError, ValueError):
        return None
    return clock


class Account:
    def __init__(self, ranges, clock=time.perf_counter_ns, stolen=thread_stolen):
        self._ranges, self._clock = ranges, clock
        self._open_stolen, self._stolen = stolen, None
        self._ns = [0] * len(NAMES)
        self._stolen_ns = [0] * len(NAMES)
        self._parts = []  # Open, the innermost last.
        self._open_ranges = []  # How many each of them has.
        self._left = OTHER  # The part that ended last with none around it.
        self._evaluates = False  # The last pass was an evaluation's.
        self._pass_ended()
        self._since = clock()
        self.begin = self._since

    @property
    def parts(self):
        return self._parts

    def use(self, ranges):
        """From now on these are opened. None is open."""
        self._ranges = ranges

    def enter(self, part, name=None, payload=0):
        if self._parts and self._parts[-1] == ASIDE:
            part = ASIDE  # An evaluation's batches and passes are it.
        elif part == COMMUNICATION and self._evaluates and not self._parts:
            part = ASIDE  # It gathers what it has found.
        elif part in _PASSES:
            self._evaluates = False
        stale = _STALE.get(part)
        if stale is not None:
            while self._parts and self._parts[-1] in stale:
                self.leave(len(self._parts))
        self._count(self._clock(), part, part)
        self._parts.append(part)
        self._open_ranges.append(0)
        if name is not None:
            self.push(name, payload)
        return len(self._parts)

    def leave(self, depth):
        """Closes the part that enter() called `depth`, and what is open inside."""
        if not 0 < depth <= len(self._parts):
            return
        self._count(self._clock(), OTHER, self._parts[depth - 2] if depth > 1 else OTHER)
        for count in self._open_ranges[depth - 1 :]:
            for _ in range(count):
                self._ranges.pop()
        if depth == 1:
            self._left = self._parts[0]
            if self._left not in (DATA, COMMUNICATION):
                self._pass_ended()
        del self._parts[depth - 1 :], self._open_ranges[depth - 1 :]

    def evaluates(self):
        """A pass of an evaluation is about to begin: what has been read and gathered since the last pass was for it."""
        if self._parts:
            return
        self._count(self._clock(), ASIDE)
        for part in (OTHER, DATA, COMMUNICATION) if self._evaluates else (DATA, COMMUNICATION):
            for counted, before in ((self._ns, self._ns_before), (self._stolen_ns, self._stolen_before)):
                counted[ASIDE] += counted[part] - before[part]
                counted[part] = before[part]
        self._evaluates = True

    def push(self, name, payload=0):
        """A range inside the innermost part, which ends with it at the latest. Returns its level in that part, from 1."""
        if not self._parts:
            return 0
        self._ranges.push(name, payload)
        self._open_ranges[-1] += 1
        return self._open_ranges[-1]

    def pop(self, level):
        """Closes the innermost part's ranges down to this level."""
        while self._parts and self._open_ranges[-1] >= level:
            self._ranges.pop()
            self._open_ranges[-1] -= 1

    def now(self):
        """Counts up to this moment and returns it."""
        now = self._clock()
        self._count(now, OTHER)
        return now

    def take(self, end):
        """What each part took up to `end`, which now() returned. A new account begins there; what is open stays so."""
        taken, self._ns = self._ns, [0] * len(NAMES)
        self._ns_before = list(self._ns)
        wall, self.begin = end - self.begin, end
        return wall, taken

    def close_ranges(self):
        """Ranges of parts that are open end here: the range around them is about to."""
        for place, count in enumerate(self._open_ranges):
            for _ in range(count):
                self._ranges.pop()
            self._open_ranges[place] = 0

    def take_stolen(self):
        """Since it was asked last, outside of data, communication and aside: how long the thread wanted a CPU and had none.
        None: not known."""
        if self._stolen is None:
            return None
        taken, self._stolen_ns = self._stolen_ns, [0] * len(NAMES)
        self._stolen_before = list(self._stolen_ns)
        return sum(taken) - taken[DATA] - taken[COMMUNICATION] - taken[ASIDE]

    def restart(self):
        """The thread that calls is the one from now on."""
        self.close_ranges()
        self._parts.clear(), self._open_ranges.clear()
        self._ns = [0] * len(NAMES)
        self._stolen_ns = [0] * len(NAMES)
        self._pass_ended()
        self._evaluates = False
        self._stolen = self._open_stolen()
        if self._stolen is not None:
            self._stolen_since = self._stolen()
        self._left = OTHER
        self._since = self.begin = self._clock()

    def _pass_ended(self):
        self._ns_before, self._stolen_before = list(self._ns), list(self._stolen_ns)

    def _count(self, now, following, then=None):
        """`then`: the part from now on; None: it does not matter, all is counted up to now.

        The clock of stolen time is a read of a file, which takes longer than all else here. It is read where a part begins
        or ends of which nothing is told, and where an evaluation is about: that may move what was counted before."""
        part = self._current(following)
        self._ns[part] += now - self._since
        self._since = now
        if self._stolen is not None and (then is None or self._evaluates or
                                         (part != then and (part in _NOT_STOLEN or then in _NOT_STOLEN))):
            self._count_stolen(part)

    def _count_stolen(self, part):
        try:
            stolen = self._stolen()
        except (OSError, ValueError):  # The job has closed what it has not opened.
            self._stolen = None
            return
        self._stolen_ns[part] += max(0, stolen - self._stolen_since)
        self._stolen_since = stolen

    def _current(self, following):
        """The open part. Between two of them, what lies right before a backward pass is the rest of the forward pass (the
        loss), and what lies between two asides is one (evaluation)."""
        if self._parts:
            return self._parts[-1]
        if following == BACKWARD:
            return FORWARD
        return ASIDE if following == ASIDE and self._left == ASIDE else OTHER
