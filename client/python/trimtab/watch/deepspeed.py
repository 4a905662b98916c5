"""DeepSpeed: its engine says where a step ends, for its ZeRO optimizers call torch's more than once a step."""
import functools

from .account import OPTIMIZER
from .facts import facts
from .session import session
from .wrapping import as_part

_WHO = "deepspeed"


def engine_loaded(module):
    engine = module.DeepSpeedEngine
    plain = as_part(engine.step, OPTIMIZER, "optimizer")

    @functools.wraps(engine.step)
    def step(self, *arguments, **named):
        last = True
        with session.guard("DeepSpeed's hook"):
            _take_over()
            last = bool(self.is_gradient_accumulation_boundary())
        returned = plain(self, *arguments, **named)
        if last:
            with session.guard("DeepSpeed's hook"):
                session.ends(_WHO, getattr(self, "global_steps", None) and self.global_steps - 1)
        return returned

    engine.step = step


def pipeline_loaded(module):
    """Its train_batch does all microbatches and the optimizer's step, which it does not take from the engine's step()."""
    engine = module.PipelineEngine
    plain = engine.train_batch

    @functools.wraps(plain)
    def train_batch(self, *arguments, **named):
        with session.guard("DeepSpeed's hook"):
            _take_over()
        returned = plain(self, *arguments, **named)
        with session.guard("DeepSpeed's hook"):
            session.tell(microbatches=self.micro_batches)
            session.ends(_WHO, getattr(self, "global_steps", None) and self.global_steps - 1)
        return returned

    engine.train_batch = train_batch


def _take_over():
    session.begins()
    session.take_over(_WHO)
    facts.made_with(_WHO)
