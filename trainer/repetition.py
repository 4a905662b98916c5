"""Repeat a measurement on all ranks at once until it is precise enough, or has taken long enough.

The exchange that decides whether to go on is also the barrier before the next repetition: every rank measures under
the contention of all the others, and all stop together.

The time that work takes on a device is measured on a CPU by its clock, on a GPU by events on the stream.

On a GPU the host runs ahead; a clock around a launch would measure the launch. Events are recorded before and after
the work and read once everything has ended. Operators and updates are measured by both clocks (trimtab/two_clocks.py).
"""
import dataclasses
import math
import statistics
import time

import torch

# Two-sided 95 % points of Student's t by degrees of freedom; beyond the last, the normal distribution's.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
            2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05)
WARM_UP = 2
# A measurement that is so slow that this passes first is not repeated more than the minimum: on a slow link the sixtieth
# repetition of a long one costs the job minutes and tells little.
LONG_NS = 5_000_000_000


@dataclasses.dataclass(frozen=True)
class Precision:
    relative_error: float
    minimum: int
    maximum: int


def precise_enough(values, relative_error):
    """Is the 95 % interval of the mean within relative_error of it?"""
    if len(values) < 2:
        return False
    mean = statistics.fmean(values)
    student = _STUDENT[len(values) - 2] if len(values) - 2 < len(_STUDENT) else 1.96
    return student * statistics.stdev(values) / math.sqrt(len(values)) <= relative_error * abs(mean)


def repeat(measure, precision, groups, clock=time.perf_counter_ns):
    """measure() gives a tuple of numbers; returns one list of integers for each place of it."""
    for _ in range(WARM_UP):
        groups.barrier()
        measure()
    rows = []
    groups.barrier()
    begin = clock()
    while True:
        rows.append(measure())
        columns = list(zip(*rows))
        long = clock() - begin > LONG_NS
        enough = len(rows) >= precision.minimum and (long or all(
            precise_enough(column, precision.relative_error) for column in columns))
        if groups.minimum(int(enough)) or len(rows) >= precision.maximum:
            return [[round(value) for value in column] for column in columns]


def span_ns(device, work):
    """The nanoseconds that the work took."""
    if device.type != "cuda":
        return elapsed_ns(work)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize(device)
    return round(1e6 * begin.elapsed_time(end))


def elapsed_ns(work):
    """By the host's clock."""
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin
