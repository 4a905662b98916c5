"""The faults of faulted_switches.py: what may happen, at which moment of a switch, and doing it."""
import dataclasses
import os
import random
import signal
import threading
import time

# Moments of a switch: messages as they pass a node's link, and points inside the ranks (trainer/faults.py).
MESSAGES = ("propose", "ack", "commit", "active")
POINTS = ("before_snapshot", "after_snapshot", "moving", "moved")
KINDS = ("kill_rank", "kill_agent", "kill_coordinator", "stop_rank", "stop_agent", "stop_coordinator", "cut_link",
         "hold_link", "swallow_link", "full_disk", "kill_in_change", "stop_in_change")
LONG_SHARE, LONG_S = 0.01, 18.0  # Now and then longer than a node may be silent, and ranks too.
SHORT_S = (0.02, 0.6)
NEXT_SWITCH_S = 120
END_S = 30  # Of a process that was killed.


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    kind: str
    moment: str
    when: str  # "before" or "after" the message passes; "" inside a rank.
    node: int  # Whose link, agent or rank.
    seconds: float  # Until a killed daemon is started again, a stopped process goes on, a link or a disk is well.

    def __str__(self):
        return f"{self.number}: {self.kind} {self.when + ' ' if self.when else 'at '}{self.moment}, " \
               f"number {self.node}, {self.seconds:.2f} s"

    @staticmethod
    def drawn(seed, number, nodes, has_disk):
        draw = random.Random(f"{seed}:{number}")
        kind = draw.choice(KINDS if has_disk else [kind for kind in KINDS if kind != "full_disk"])
        inside = kind.endswith("_in_change")
        # A snapshot is written after the commit has passed: a disk that is full until then must be so before.
        messages = ("propose", "ack") if kind == "full_disk" else MESSAGES
        moment, when = draw.choice(POINTS if inside else messages), "" if inside else draw.choice(("before", "after"))
        is_long = draw.random() < LONG_SHARE
        seconds = LONG_S if is_long else draw.uniform(*SHORT_S)
        return Fault(number, kind, moment, when, draw.randrange(nodes), seconds)


class Striker:
    """Waits for a fault's moment and does it. The links' threads call in; everything else is the main thread's."""

    def __init__(self, job):
        self._job = job
        self._lock = threading.Lock()
        self._armed, self._struck_at = None, None
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
        struck_at = time.monotonic() if inside else self._struck_at
        time.sleep(max(0.0, struck_at + fault.seconds - time.monotonic()))
        self._heal(fault)
        return struck_at

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
        if whom == "link":
            {"cut": link.cut, "hold": link.hold, "swallow": link.swallow}[what](fault.seconds)
        elif whom == "disk":
            self._job.disk.fill()
        else:
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
        if fault.kind in ("kill_agent", "kill_coordinator"):  # On a busy machine an end takes time, too.
            self._daemon(fault).wait(END_S)
        self._job.start_missing_daemons()
        self._job.wake_stopped()
