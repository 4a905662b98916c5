"""Runs the parts of the check one after the other: each with its time, its budget, and its own failure."""
import time
import traceback

PASSED, FAILED, SKIPPED, NOT_SHOWN = "passed", "failed", "skipped", "not shown"


class Failed(Exception):
    """The section found what it looked for to be wrong, or could not look; the text says which."""

    def __init__(self, reason, result=None):
        super().__init__(reason)
        self.result = result or {}


class NotShown(Failed):
    """Nothing is wrong, but what was measured is too unsure to say that all is right."""


class Skipped(Exception):
    """The section cannot be run here; the text says why."""


class Budget:
    """Seconds that remain, by an injected clock."""

    def __init__(self, seconds, clock=time.monotonic):
        self._clock, self._end = clock, clock() + seconds

    def left(self):
        return max(0.0, self._end - self._clock())

    def spent(self):
        return self.left() <= 0.0


def run(name, budget_s, work, clock=time.monotonic):
    """What work(Budget) returned or how it failed, as a document."""
    began = clock()
    document = {"section": name, "budget_s": budget_s}
    try:
        document.update(status=PASSED, result=work(Budget(budget_s, clock)) or {})
    except Skipped as reason:
        document.update(status=SKIPPED, reason=str(reason), result={})
    except Failed as reason:
        document.update(status=NOT_SHOWN if isinstance(reason, NotShown) else FAILED, reason=str(reason), result=reason.result)
    except Exception as error:  # Whatever it is, the other sections are still worth running.
        where = traceback.extract_tb(error.__traceback__)[-1]
        document.update(status=FAILED, result={},
                        reason=f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})")
    document["seconds"] = round(clock() - began, 1)
    return document
