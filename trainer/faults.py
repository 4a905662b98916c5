"""Named points where a test can make a rank die, as a machine would: without warning and without cleaning up."""
import os
import signal

POINTS = ("step", "before_snapshot", "after_snapshot", "moving", "moved")


class NoFaults:
    """Production: nothing happens."""

    def reach(self, point, step):
        pass


class KillAt:
    """Kills this process at one point of one step."""

    def __init__(self, point, step):
        assert point in POINTS, point
        self._point, self._step = point, step

    def reach(self, point, step):
        if (point, step) == (self._point, self._step):
            os.kill(os.getpid(), signal.SIGKILL)


def from_environment(rank, environment=os.environ):
    """TRIMTAB_TEST_KILL="rank:step:point" asks for one death; anything else for none."""
    parts = environment.get("TRIMTAB_TEST_KILL", "").split(":")
    if len(parts) == 3 and parts[0] == str(rank) and parts[1].isdigit() and parts[2] in POINTS:
        return KillAt(parts[2], int(parts[1]))
    return NoFaults()
