"""Megatron-LM's train_step: trimtab.megatron, unasked. What a rank takes and where it stands in the plan say Megatron-LM's arguments: of a
replica's ranks some load no data, and those that do load the same. What is trained are train_step's arguments: a rank of interleaved stages
has several parts of the model, and FSDP's optimizers hold none of the model's own parameters."""
import functools
import inspect
import sys

from trimtab.megatron import Steps

from . import tree
from .account import ASIDE, OPTIMIZER
from .facts import facts
from .layers import layers
from .losses import losses
from .modules import modules
from .session import session
from .wrapping import as_part, replace

_WHO = "megatron"
# Since Megatron Core 0.7; before; before 0.6.
_CALCULATORS = ("megatron.core.num_microbatches_calculator", "megatron.training.global_vars", "megatron.global_vars")


class Told:
    """What Steps tells its client of a step. What the step took, the session knows."""

    def __init__(self):
        self.get_args = None
        self.knows_model = False

    def trains(self, model, optimizer, **_):
        """Arguments of train_step."""
        modules.trained = model if isinstance(model, list) else [model]
        layers.names_in = _layer_names
        replace(type(optimizer), "step", lambda plain: as_part(plain, OPTIMIZER, "optimizer"))

    def connect(self, step):
        session.begins(step)
        session.take_over(_WHO)
        facts.made_with(_WHO)
        losses.by_framework = True
        for known in (_place, _repeated, _experts):
            with session.guard("Megatron-LM's plan"):
                facts.by_framework.update(known(self.get_args(), modules.trained))
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


def _place(args, parts):
    place = {"batch_size": args.micro_batch_size, "sequence_length": args.seq_length, "tensor_parallel": args.tensor_model_parallel_size,
             "context_parallel": getattr(args, "context_parallel_size", 1), "stages": args.pipeline_model_parallel_size}
    if place["stages"] > 1:
        place["stage"] = sys.modules["megatron.core.parallel_state"].get_pipeline_model_parallel_rank()
    if len(parts) > 1:
        place["virtual_stages"] = len(parts)
    for name, sharding in (("use_torch_fsdp2", "torch-fsdp2"), ("use_megatron_fsdp", "megatron-fsdp"), ("use_custom_fsdp", "megatron-fsdp")):
        if getattr(args, name, False):
            place["sharding"] = sharding
    return place


def _repeated(args, parts):
    """One call of its checkpoint() repeats several layers, or a part of one."""
    granularity = getattr(args, "recompute_granularity", None)
    if granularity != "full":
        return {"checkpointed_layers": 0} if granularity else {}
    counts = [len(_layer_names(part)) for part in parts]
    if args.recompute_method == "block":
        counts = [min(count, args.recompute_num_layers) for count in counts]
    return {"checkpointed_layers": sum(counts)}


def _experts(args, parts):
    """Of its experts a token passes some: of the parameters those count that it passes."""
    experts = getattr(args, "num_experts", None)
    if not experts:
        return {}
    ranks = getattr(args, "expert_model_parallel_size", 1)
    tensor = args.tensor_model_parallel_size
    passed = getattr(args, "moe_router_topk", 1) * ranks * (getattr(args, "expert_tensor_parallel_size", None) or tensor) / tensor / experts
    inside = outside = 0
    for part in parts:
        for name, parameter in part.named_parameters():
            count = tree.whole_size(parameter)
            if ".experts." in name:
                inside += count
            else:
                outside += count
    return {"expert_parallel": ranks, "active_parameters": outside + round(inside * passed)}


def _layer_names(part):
    """A stage may have a single layer."""
    names = [f"{name}.{key}" for name, inner in part.named_modules() if name.endswith(".layers") and hasattr(inner, "append")
             for key, _ in inner.named_children()]
    return names or tree.layer_names(part)


told = Told()
steps = Steps(told.connect)


def training_loaded(module):
    told.get_args = getattr(module, "get_args", None)
    steps.loaded(module)
    replace(module, "train_step", _knowing)
    for name in ("evaluate_and_print_results", "save_checkpoint_and_time"):
        replace(module, name, lambda plain: as_part(plain, ASIDE))


def _knowing(train_step):
    """What it trains is known before its first call."""
    signature = inspect.signature(train_step)

    @functools.wraps(train_step)
    def step(*arguments, **named):
        if not told.knows_model:
            told.knows_model = True
            with session.guard("Megatron-LM's model"):
                told.trains(**signature.bind(*arguments, **named).arguments)
        return train_step(*arguments, **named)

    return step
