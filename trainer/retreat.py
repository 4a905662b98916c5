"""What a job does when a plan fails in the middle of a step, or has spoilt what is learnt: every rank starts its program
anew in the same process, on the plan before and from the newest snapshot. Agents see the same processes go on.

Why not in place: collectives that wait for a rank that failed cannot be taken back, and a heap that was full is in
pieces. A new image of the program leaves both behind on every rank, whatever its threads are doing at that moment.

The old image hands a Retreat over in an anonymous file whose number stands in TRIMTAB_RETREAT.
"""
import dataclasses
import json
import os
import sys
import threading

VARIABLE = "TRIMTAB_RETREAT"
_LEAVING = threading.Lock()  # Held by the thread that replaces the program: another would close what that hands over.


@dataclasses.dataclass(frozen=True)
class Retreat:
    plan: dict  # The document to go on with,
    epoch: int  # and its epoch.
    failed_epoch: int
    reason: str = ""  # As in plan_failed.
    message: str = ""  # What happened, for people.
    attempt: int = 1  # The how-manieth image of the program is the new one, from 1.


def taken(environment=os.environ):
    """The Retreat that this image begins with, or None. The variable is gone afterwards."""
    descriptor = environment.pop(VARIABLE, None)
    if descriptor is None:
        return None
    with os.fdopen(int(descriptor), "rb") as file:
        file.seek(0)
        return Retreat(**json.load(file))


def start_anew(retreat):
    """Replace this process's program by itself. Any thread, several at once; does not return."""
    with _LEAVING:
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                _close_at_exec(int(name))
        descriptor = os.memfd_create("retreat", 0)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(json.dumps(dataclasses.asdict(retreat)).encode())
        os.environ[VARIABLE] = str(descriptor)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _close_at_exec(descriptor):
    try:
        os.set_inheritable(descriptor, False)
    except OSError:
        pass  # The listing's own, or closed meanwhile by another thread.
