"""What a test can do to a rank: make it die or stand still at a named point, as a machine would, without warning and
without cleaning up; or make a plan spoil what is learnt.
"""
import os
import signal

POINTS = ("step", "before_snapshot", "after_snapshot", "moving", "moved")


class NoFaults:
    """Production: nothing happens."""

    def reach(self, point, step):
        pass

    def spoil(self, epoch, adopted, states):
        pass


class KillAt(NoFaults):
    """Kills this process at one point of one step."""

    def __init__(self, point, step):
        assert point in POINTS, point
        self._point, self._step = point, step

    def reach(self, point, step):
        if (point, step) == (self._point, self._step):
            os.kill(os.getpid(), signal.SIGKILL)


class Ordered(NoFaults):
    """Does once what a file says while the job runs: "RANK POINT SIGNAL", such as "1 moving 9". Then the file is gone."""

    def __init__(self, path, rank):
        self._path, self._rank = path, rank

    def reach(self, point, step):
        try:
            with open(self._path, encoding="utf-8") as file:
                rank, where, number = file.read().split()
        except (OSError, ValueError):  # None, or not written to its end.
            return
        if (rank, where) == (str(self._rank), point):
            os.unlink(self._path)
            os.kill(os.getpid(), int(number))


class SpoilUnder(NoFaults):
    """Under one epoch's plan a parameter becomes no number: at once, or once it is adopted."""

    def __init__(self, epoch, once_adopted):
        self._epoch, self._once_adopted = epoch, once_adopted

    def spoil(self, epoch, adopted, states):
        if epoch == self._epoch and (adopted or not self._once_adopted):
            states[0].values.parameters[0] = float("nan")


def from_environment(rank, environment=os.environ):
    """TRIMTAB_TEST_KILL="rank:step:point" asks for one death, TRIMTAB_TEST_SPOIL="rank:epoch" for a plan that spoils
    ("rank:epoch:adopted": once it is adopted), TRIMTAB_TEST_ORDERS="path" for what the file says; anything else for
    nothing."""
    parts = environment.get("TRIMTAB_TEST_KILL", "").split(":")
    if len(parts) == 3 and parts[0] == str(rank) and parts[1].isdigit() and parts[2] in POINTS:
        return KillAt(parts[2], int(parts[1]))
    parts = environment.get("TRIMTAB_TEST_SPOIL", "").split(":")
    if len(parts) >= 2 and parts[0] == str(rank) and parts[1].isdigit() and parts[2:] in ([], ["adopted"]):
        return SpoilUnder(int(parts[1]), once_adopted=bool(parts[2:]))
    if environment.get("TRIMTAB_TEST_ORDERS"):
        return Ordered(environment["TRIMTAB_TEST_ORDERS"], rank)
    return NoFaults()
