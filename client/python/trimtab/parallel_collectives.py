"""Collectives of a job of trimtab.parallel that are measured again between two of its steps.

As module_benchmark.py runs them, but in the process group and on the device that the job trains with. Operators are not
among them: a layer that DDP or FSDP has wrapped cannot run alone.
"""
import contextlib
import time
import types

from .measuring_again import CannotRun
from .module_benchmark import BadItem, _call


def once_of(torch, item, device):
    """A function that runs the collective once and returns the nanoseconds that it took, as a tuple."""
    distributed = torch.distributed
    if item.get("kind") != "collective":
        raise CannotRun(f"{item.get('kind')} items are not measured in a job of trimtab.parallel")
    if not distributed.is_initialized():
        raise CannotRun("there is no process group")
    ranks = distributed.get_world_size()

    def whole(size, _):
        if size != ranks or len(item.get("ranks", range(ranks))) != ranks:
            raise BadItem(f"groups are of all {ranks} ranks here")
        return None, 0  # the job's own group, whose first rank is 0

    group = types.SimpleNamespace(torch=torch, distributed=distributed, world_size=ranks, block=whole)
    with contextlib.nullcontext() if device.type == "cpu" else torch.device(device):
        try:
            start = _call(item, group)
        except BadItem as error:
            raise CannotRun(str(error)) from error

    def once():
        begin = time.perf_counter_ns()
        start().wait()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return (time.perf_counter_ns() - begin,)

    return once
