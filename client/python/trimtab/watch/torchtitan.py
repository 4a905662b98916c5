"""torchtitan's Trainer: its train_step is a step, the loss is the one that it logs, and what it was told says batch and place in the plan.

It logs every few steps (metrics.log_freq), and knows the loss of those alone. A rank's own losses are shares of it.
"""
import functools

from .account import ASIDE
from .facts import facts
from .losses import losses
from .session import session
from .wrapping import as_part, replace

_WHO = "torchtitan"


def trainer_loaded(module):
    replace(module.Trainer, "train_step", _step)


def metrics_loaded(module):
    replace(module.MetricsProcessor, "log", _logged)


def validate_loaded(module):
    replace(module.Validator, "validate", lambda plain: as_part(plain, ASIDE))


def _step(plain):
    @functools.wraps(plain)
    def train_step(trainer, *arguments, **named):
        with session.guard("torchtitan's hook"):
            session.begins(trainer.step - 1)
            session.take_over(_WHO)
            losses.by_framework = True
            facts.made_with(_WHO)
            facts.by_framework.update(_place(trainer))
        result = plain(trainer, *arguments, **named)
        with session.guard("torchtitan's batch"):
            session.tell(**_batch(trainer))
        session.ends(_WHO, trainer.step - 1)
        return result

    return train_step


def _logged(plain):
    @functools.wraps(plain)
    def log(processor, step, global_avg_loss, global_max_loss, grad_norm, *arguments, **named):
        session.tell(loss=float(global_avg_loss), gradient_norm=float(grad_norm))
        return plain(processor, step, global_avg_loss, global_max_loss, grad_norm, *arguments, **named)

    return log


def _microbatch(trainer):
    """(samples of a microbatch, microbatches of a step): in a pipeline the local batch is cut into them."""
    size = trainer.config.training.local_batch_size
    accumulated = trainer.gradient_accumulation_steps
    if trainer.parallel_dims.pp > 1:
        part = trainer.config.parallelism.pipeline_parallel_microbatch_size
        return part, accumulated * (size // part)
    return size, accumulated


def _batch(trainer):
    size, microbatches = _microbatch(trainer)
    count = size * microbatches
    return {"count": count, "tokens": count * trainer.config.training.seq_len, "microbatches": microbatches}


def _place(trainer):
    size, microbatches = _microbatch(trainer)
    ranks = trainer.parallel_dims
    place = {"batch_size": size, "accumulation": microbatches, "sequence_length": trainer.config.training.seq_len,
             "tensor_parallel": ranks.tp, "context_parallel": ranks.cp, "stages": ranks.pp}
    if ranks.pp > 1:
        place["stage"] = ranks.get_mesh("pp").get_local_rank()
    return place
