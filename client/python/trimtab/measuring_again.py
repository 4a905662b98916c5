"""What has become doubtful is measured again, in a pause between two steps of a running job (docs/protocols.md, "Change is
measured").

All ranks call run() before the same step, with the same request. They agree on everything that depends on a clock, so
none waits in a collective that another has left out. Main thread only. No torch here: the job brings its own calls.
"""
import time

SHORTEST_NS = 2_000_000  # shorter calls are repeated within one value, or the ranks' skew is what is measured
CALLS_MAX = 64
VALUES = 3


class CannotRun(Exception):
    """This rank cannot run the item; the text is the answer."""


def agreed(offers_sum, squares_sum, ranks):
    """The number that all ranks offer, or 0: sums of so many numbers and of their squares are of equal ones or are not."""
    number = round(offers_sum / ranks)
    return number if number > 0 and round(squares_sum) == ranks * number * number and round(offers_sum) == ranks * number else 0


def run(request, prepare, most, clock=time.perf_counter_ns):
    """Measures the request's items while its bound allows, and returns what the agent is told of it.

    prepare(item) gives a function that runs the item once and returns the nanoseconds of each of its costs, or None
    where this rank only keeps step; what it raises is the item's answer. It may make groups: all ranks call it for the
    same items in the same order. most(numbers) are the largest of all ranks', place by place.
    """
    began, answers, slip = clock(), [], 1.0
    bound = request["bound_ms"] * 1e6
    # Short ones first: what they take beyond what was expected is expected of the longer ones, too.
    for number, item in sorted(enumerate(request["items"]), key=lambda one: one[1]["expected_ns"]):
        once, why = _prepared(prepare, item)
        elapsed, refused = most([clock() - began, int(bool(why))])
        left = bound - elapsed
        if refused:
            answers.append({"item": number, "error": why or "another rank cannot run it"})
        elif item["expected_ns"] * slip > left:
            answers.append({"item": number, "error": f"{max(left, 0) / 1e6:.0f} ms of the pause were left, too few for it"})
        else:
            answer, first = _measured(_Guarded(once), left, most, clock)
            slip = max(slip, first / max(item["expected_ns"], 1))
            answers.append({"item": number, **answer})
    return {"took_ns": int(clock() - began), "items": answers}


def _prepared(prepare, item):
    try:
        return prepare(item), ""
    except Exception as error:  # whatever is wrong with it: the job goes on
        return None, _words(error)


class _Guarded:
    """What an item raises is its answer, and the job goes on: this rank does nothing more for the item, and keeps step."""

    def __init__(self, once):
        self._once, self.why = once, ""

    def __call__(self):
        try:
            return self._once() if self._once and not self.why else ()
        except Exception as error:
            self.why = _words(error)
            return ()


def _words(error):
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _measured(once, left, most, clock):
    """(what is told of the item: a list of values for each of its costs, or an error; what the first call took on the slowest
    rank).

    The first call makes connections and buffers. It is no value, unless no time is left for another.
    """
    began = clock()
    first = once()
    longest, failed = most([clock() - began, int(bool(once.why))])
    longest = max(longest, 1)
    calls = int(min(CALLS_MAX, max(1, SHORTEST_NS // longest)))
    rounds = 0 if failed else int(min(VALUES, (left - longest) // (longest * calls)))
    rows = []
    for _ in range(rounds):
        failed = most([int(bool(once.why))])[0]  # begin together
        if failed:
            break
        rows.append([sum(column) // calls for column in zip(*[once() for _ in range(calls)])])
    if most([int(failed or bool(once.why))])[0]:
        return {"error": once.why or "another rank could not run it"}, longest
    return {"values": [[int(value) for value in column] for column in zip(*(rows or [first]))]}, longest
