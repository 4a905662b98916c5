"""DeepSpeed: its engine says where a step ends, for its ZeRO optimizers call torch's more than once a step."""
import functools

from .account import OPTIMIZER
from .facts import facts
from .losses import losses
from .modules import modules
from .optimizers import only_state
from .session import session
from .wrapping import as_part

_WHO = "deepspeed"


def engine_loaded(module):
    engine = module.DeepSpeedEngine
    engine.__init__ = only_state(engine.__init__)
    engine.step = _watched_step(engine.step)
    engine.backward = _watched_backward(engine.backward)
    if hasattr(engine, "scale"):  # Of losses whose backward pass the script calls itself.
        engine.scale = losses.unscaled(engine.scale)


def _watched_step(method):
    """A step ends where the engine counts one: with some settings it does not say before whether it will."""
    plain = as_part(method, OPTIMIZER, "optimizer")

    @functools.wraps(method)
    def step(self, *arguments, **named):
        before = None
        with session.guard("DeepSpeed's hook"):
            _take_over(self)
            before = self.global_steps
        returned = plain(self, *arguments, **named)
        with session.guard("DeepSpeed's hook"):
            if self.global_steps != before:
                session.ends(_WHO, self.global_steps - 1)
        return returned

    return step


def _watched_backward(plain):
    """It divides the loss by the microbatches, and multiplies it where gradients are scaled."""

    @functools.wraps(plain)
    def backward(self, loss, *arguments, **named):
        losses.instead = loss
        try:
            return plain(self, loss, *arguments, **named)
        finally:
            losses.instead = None

    return backward


def pipeline_loaded(module):
    """Its train_batch does all microbatches and the optimizer's step, which it does not take from the engine's step()."""
    engine = module.PipelineEngine
    plain = engine.train_batch

    @functools.wraps(plain)
    def train_batch(self, *arguments, **named):
        with session.guard("DeepSpeed's hook"):
            _take_over(self)
            facts.by_framework.update(batch_size=self.micro_batch_size, stages=self.num_stages, stage=self.stage_id)
        returned = plain(self, *arguments, **named)
        with session.guard("DeepSpeed's hook"):
            # The stages between the first and the last load no data.
            session.tell(microbatches=self.micro_batches, count=self.micro_batch_size * self.micro_batches)
            session.ends(_WHO, self.global_steps - 1)
        return returned

    engine.train_batch = train_batch


def _take_over(engine):
    session.begins()
    modules.trained = [engine]
    session.take_over(_WHO)
    facts.made_with(_WHO)
