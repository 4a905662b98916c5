"""Megatron-LM's train_step: trimtab.megatron, unasked. What a rank takes and where it stands in the plan say Megatron-LM's arguments: of a
replica's ranks some load no data, and those that do load the same."""
import sys

from trimtab.megatron import Steps

from .facts import facts
from .losses import losses
from .session import session

_WHO = "megatron"
# Since Megatron Core 0.7; before; before 0.6.
_CALCULATORS = ("megatron.core.num_microbatches_calculator", "megatron.training.global_vars", "megatron.global_vars")


class Told:
    """What Steps tells its client of a step. What the step took, the session knows."""

    def __init__(self):
        self.get_args = None

    def connect(self, step):
        session.begins(step)
        session.take_over(_WHO)
        facts.made_with(_WHO)
        losses.by_framework = True
        with session.guard("Megatron-LM's plan"):
            facts.by_framework.update(_place(self.get_args()))
        return self

    def step(self, number, *, loss, gradient_norm, **_):
        with session.guard("Megatron-LM's batch"):
            session.tell(**_batch(self.get_args()))
        session.tell(loss=loss, gradient_norm=gradient_norm)
        session.ends(_WHO, number)


def _batch(args):
    """Of the step that ends: what this rank has computed on. The number of microbatches may grow in training."""
    calculator = next(module for module in map(sys.modules.get, _CALCULATORS) if hasattr(module, "get_num_microbatches"))
    microbatches = calculator.get_num_microbatches()
    count = args.micro_batch_size * microbatches
    return {"count": count, "tokens": count * args.seq_length, "microbatches": microbatches}


def _place(args):
    place = {"batch_size": args.micro_batch_size, "sequence_length": args.seq_length, "tensor_parallel": args.tensor_model_parallel_size,
             "context_parallel": getattr(args, "context_parallel_size", 1), "stages": args.pipeline_model_parallel_size}
    if place["stages"] > 1:
        place["stage"] = sys.modules["megatron.core.parallel_state"].get_pipeline_model_parallel_rank()
    return place


told = Told()
steps = Steps(told.connect)


def training_loaded(module):
    told.get_args = getattr(module, "get_args", None)
    steps.loaded(module)
