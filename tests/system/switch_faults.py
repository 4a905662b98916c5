"""The faults of faulted_switches.py: what may happen, at which moment of a switch, and doing it."""
import dataclasses
import os
import random
import signal
import threading
import time

from installation import wait_until
from rank_network import WAYS

# Moments of a switch: messages as they pass a node's link, and points inside the ranks (trainer/faults.py).
MESSAGES = ("propose", "ack", "commit", "active")
POINTS = ("before_snapshot", "after_snapshot", "moving", "moved")
KINDS = ("kill_rank", "kill_agent", "kill_coordinator", "stop_rank", "stop_agent", "stop_coordinator", "cut_link",
         "hold_link", "swallow_link", "full_disk", "kill_in_change", "stop_in_change", "cut_ranks", "hold_ranks", "cut_node")
# Nothing passes between ranks: until they are gone, for a while, or for a while and neither to the coordinator.
BETWEEN_RANKS = ("cut_ranks", "hold_ranks", "cut_node")
LONG_SHARE, LONG_S = 0.01, 18.0  # Now and then longer than a node may be silent, and ranks too.
LONG_CUT_SHARE = 0.05  # Then ranks that are launched anew do not meet either.
SHORT_S, HOLD_S = (0.02, 0.6), (0.3, 5.0)
NEXT_SWITCH_S = 120
END_S = 30  # Of a process that was killed, and of ranks that have lost each other (7 s after the last sign of life).


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    kind: str
    moment: str
    when: str  # "before" or "after" the message passes; "" inside a rank.
    node: int  # Whose link, agent or rank.
    # Until a killed daemon is started again, a stopped process goes on, a link or a disk is well; of cut_ranks: after the
    # ranks are gone.
    seconds: float
    ways: str = ""  # Of a cut between ranks.

    def __str__(self):
        return f"{self.number}: {self.kind} {self.when + ' ' if self.when else 'at '}{self.moment}, " \
               f"number {self.node}, {self.ways + ', ' if self.ways else ''}{self.seconds:.2f} s"

    @staticmethod
    def drawn(seed, number, nodes, kinds):
        draw = random.Random(f"{seed}:{number}")
        kind = draw.choice(kinds)
        between = kind in BETWEEN_RANKS
        inside = draw.random() < 0.5 if between else kind.endswith("_in_change")
        # A snapshot is written after the commit has passed: a disk that is full until then must be so before.
        messages = ("propose", "ack") if kind == "full_disk" else MESSAGES
        moment, when = draw.choice(POINTS if inside else messages), "" if inside else draw.choice(("before", "after"))
        is_long = draw.random() < (LONG_CUT_SHARE if kind == "cut_ranks" else LONG_SHARE)
        seconds = LONG_S if is_long else draw.uniform(*(HOLD_S if kind in ("hold_ranks", "cut_node") else SHORT_S))
        return Fault(number, kind, moment, when, draw.randrange(nodes), seconds, draw.choice(list(WAYS)) if between else "")


class Striker:
    """Waits for a fault's moment and does it. The links' threads call in; everything else is the main thread's."""

    def __init__(self, job):
        self._job = job
        self._lock = threading.Lock()
        self._armed, self._struck_at = None, None
        self._cut_off = ()  # Pids of the ranks that have lost each other.
        for node, link in enumerate(job.links):
            link.watch = lambda kind, when, node=node: self._passes(node, kind, when)

    def strike(self, fault, in_vain):
        """Do it at its moment, and make good again what it broke. The time of the blow; None where `in_vain()` came first.

        Raises AssertionError where no switch comes that has this moment."""
        inside = not fault.when
        if inside:
            self._job.order(fault.node, fault.moment, signal.SIGKILL if fault.kind == "kill_in_change" else signal.SIGSTOP)
        else:
            with self._lock:
                self._armed, self._struck_at = fault, None
        deadline = time.monotonic() + NEXT_SWITCH_S
        look_again = 0.0  # Asking costs the job's coordinator something.
        while not (self._job.order_was_taken() if inside else self._struck_at):
            time.sleep(0.005)
            if time.monotonic() < look_again:
                continue
            look_again = time.monotonic() + 0.5
            if in_vain() and self._disarm(inside):
                return None
            if time.monotonic() > deadline and self._disarm(inside):
                raise AssertionError(f"no switch came to this moment within {NEXT_SWITCH_S} s")
        if inside and fault.kind in BETWEEN_RANKS:
            self._cut_at_standstill(fault)
        struck_at = well_from = time.monotonic() if inside else self._struck_at
        if fault.kind == "cut_ranks":
            wait_until(lambda: self._job.ranks_are_gone(self._cut_off), "the end of the ranks that have lost each other", END_S)
            well_from = time.monotonic()
        time.sleep(max(0.0, well_from + fault.seconds - time.monotonic()))
        self._heal(fault)
        return struck_at

    def _cut_at_standstill(self, fault):
        """The rank has stopped itself at the point: so the cut comes at it, not some steps later."""
        self._job.wait_until_stopped(fault.node)
        self._do(fault)
        self._job.wake_stopped()

    def _disarm(self, inside):
        """False where it has struck after all."""
        if inside:
            return self._job.take_back_order()
        with self._lock:
            self._armed = None
            return self._struck_at is None

    def _passes(self, node, kind, when):
        with self._lock:
            fault = self._armed
            if fault is None or (node, kind, when) != (fault.node, fault.moment, fault.when):
                return
            self._armed = None
            self._do(fault)
            self._struck_at = time.monotonic()

    def _do(self, fault):
        what, _, whom = fault.kind.partition("_")
        link = self._job.links[fault.node]
        if fault.kind in BETWEEN_RANKS:
            self._job.network.cut(fault.node, fault.ways)
            self._cut_off = list(self._job.rank_pids().values())
        if whom == "link":
            {"cut": link.cut, "hold": link.hold, "swallow": link.swallow}[what](fault.seconds)
        elif whom == "node":
            link.swallow(fault.seconds)
        elif whom == "disk":
            self._job.disk.fill()
        elif whom != "ranks":
            pid = self._pid(whom, fault)
            if pid:
                os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)

    def _pid(self, whom, fault):
        return self._job.rank_pids().get(fault.node) if whom == "rank" else self._daemon(fault).pid

    def _daemon(self, fault):
        return self._job.daemons["coordinator" if fault.kind.endswith("_coordinator") else f"agent{fault.node}"]

    def _heal(self, fault):
        if fault.kind == "full_disk":
            self._job.disk.free()
        if fault.kind in BETWEEN_RANKS:
            self._job.network.heal()
        if fault.kind in ("kill_agent", "kill_coordinator"):  # On a busy machine an end takes time, too.
            self._daemon(fault).wait(END_S)
        self._job.start_missing_daemons()
        self._job.wake_stopped()
