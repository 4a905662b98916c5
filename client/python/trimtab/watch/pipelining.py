"""torch.distributed.pipelining: which schedule runs, which stages of a pipeline this rank has, and the microbatches of a step.

Steps end with the optimizer's, and each stage calls the backward pass itself. So all but the plan is seen without this. A rank
with several stages calls it for each of them, and ranks between the ends take no batch.
"""
import functools

from .facts import facts
from .session import session

_WHO = "the hook of torch.distributed.pipelining"


class Told:
    """Of the optimizer's step under way, which may be several runs of the schedule."""

    def __init__(self):
        self.microbatches = self.samples = 0
        self._waits = False

    def run(self, schedule, samples):
        self.microbatches += schedule._n_microbatches
        self.samples += samples or 0
        session.tell(microbatches=self.microbatches, count=self.samples or None)
        if not self._waits:
            self._waits = True
            session.after_step(self.stepped)

    def stepped(self, _number):
        self.microbatches = self.samples = 0


told = Told()


def schedules_loaded(module):
    for name in ("PipelineScheduleSingle", "PipelineScheduleMulti"):
        schedule = getattr(module, name)
        schedule.step = _watched(schedule.step)


def _watched(plain):
    @functools.wraps(plain)
    def step(self, *arguments, **named):
        with session.guard(_WHO):
            if self._has_backward:
                _tell(self, arguments, named.get("target"))
        return plain(self, *arguments, **named)

    return step


def _tell(schedule, arguments, target):
    """Only the first stage has the batch, and only the last one what it is compared with."""
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    tensors = [value for value in (*arguments, target) if hasattr(value, "shape") and len(value.shape) > 0]
    samples = tensors[0].shape[0] if tensors else None
    place = {"schedule": type(schedule).__name__, "stages": stages[0].group_size, "stage": stages[0].group_rank}
    if len(stages) > 1:
        place["virtual_stages"] = len(stages)
    if samples:
        place["batch_size"] = -(-samples // schedule._n_microbatches)
    facts.by_framework.update(place)
    told.run(schedule, samples)
