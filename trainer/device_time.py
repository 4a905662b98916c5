"""Time that work takes on a device: on a CPU by its clock, on a GPU by events on the stream.

On a GPU the host runs ahead; a clock around a launch would measure the launch. Events are recorded before and after
each piece of work and read once everything has ended, so pieces follow each other as they do in training.
"""
import time

import torch


def spans_ns(device, *works):
    """Do the works in order; the nanoseconds that each took, a list."""
    if device.type != "cuda":
        return [_by_clock(work) for work in works]
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(works) + 1)]
    marks[0].record()
    for work, mark in zip(works, marks[1:]):
        work()
        mark.record()
    torch.cuda.synchronize(device)
    return [round(1e6 * begin.elapsed_time(end)) for begin, end in zip(marks, marks[1:])]


def span_ns(device, work):
    return spans_ns(device, work)[0]


def _by_clock(work):
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin
