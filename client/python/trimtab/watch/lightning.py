"""Lightning's Trainer: its loops say which batch is trained on, and its optimizers' closures hold the whole microbatch.

PyTorch's optimizers end its steps. A microbatch that a closure computes is told here, for the hooks do not count those.
"""
import functools

from .account import ASIDE
from .facts import facts
from .loaders import batches
from .session import session
from .wrapping import as_part, replace

_WHO = "lightning"
_TYPES = {"bf16": "bfloat16", "16": "float16", "32": "float32", "64": "float64"}


class Microbatches:
    """Of the step under way."""

    def __init__(self):
        self._count = 0

    def begins(self):
        self._count += 1
        session.tell(microbatches=self._count)

    def stepped(self, _number):
        self._count = 0


microbatches = Microbatches()
session.after_step(microbatches.stepped)


def automatic_loaded(module):
    _before_run(module._AutomaticOptimization, _automatic)


def manual_loaded(module):
    _before_run(module._ManualOptimization, _manual)


def evaluation_loaded(module):
    replace(module._EvaluationLoop, "run", _aside)


def trainer_loaded(module):
    replace(module.Trainer, "save_checkpoint", _aside)


def _aside(plain):
    return as_part(plain, ASIDE)


def _before_run(loop, ours):
    plain = loop.run

    @functools.wraps(plain)
    def run(self, *arguments, **named):
        with session.guard("Lightning's hook"):
            ours(self.trainer, arguments[-1] if arguments else named["kwargs"])
        return plain(self, *arguments, **named)

    loop.run = run


def _automatic(trainer, kwargs):
    session.begins(trainer.global_step)
    microbatches.begins()
    _know(trainer, kwargs)
    facts.by_framework["accumulation"] = int(trainer.accumulate_grad_batches)


def _manual(trainer, kwargs):
    _know(trainer, kwargs)


def _know(trainer, kwargs):
    facts.made_with(_WHO)
    kind = _TYPES.get(str(trainer.precision).partition("-")[0])
    if kind is not None:
        facts.by_framework["dtype"] = kind
    if "batch" in kwargs:
        batches.given(kwargs["batch"])
