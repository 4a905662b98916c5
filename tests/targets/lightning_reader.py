"""Reads the words of LightningCLI: the Trainer's arguments, and a strategy with its own (lightning/pytorch/strategies)."""
import json

from meaning import LEVELS, PlanMeaning, operator_meaning

STRATEGIES = {"SHARD_GRAD_OP": ("gradients", False), "FULL_SHARD": ("parameters", False), "_HYBRID_SHARD_ZERO2": ("gradients", True),
              "HYBRID_SHARD": ("parameters", True)}


def parsed(words):
    values = {name[2:]: value for name, value in zip(words[::2], words[1::2])}
    assert 2 * len(values) == len(words) and all(name.startswith("--") for name in words[::2])
    return values


def read(words, world, shape):
    values = parsed(words)
    samples, steps = int(values.pop("data.batch_size")), int(values.pop("trainer.accumulate_grad_batches"))
    name = values.pop("trainer.strategy")
    own = {key.removeprefix("trainer.strategy."): json.loads(value) if value[0] in "[tf0123456789" else value for key, value in values.items()}
    level, degree, offload, knobs = "none", world, False, ()
    if name == "DDPStrategy":
        knobs = (("bucket_bytes", int(own.pop("bucket_cap_mb") * 1024 * 1024)),)  # as DistributedDataParallel does
    elif name == "FSDPStrategy":
        level, hybrid = STRATEGIES[own.pop("sharding_strategy")]
        if hybrid:
            replicas, degree = own.pop("device_mesh")
            assert replicas * degree == world and replicas > 1
    elif name == "DeepSpeedStrategy":
        if own.pop("zero_optimization", True):
            level, offload = LEVELS[own.pop("stage")], own.pop("offload_optimizer")
            if "reduce_bucket_size" in own:
                knobs = (("bucket_bytes", 4 * own.pop("reduce_bucket_size")),)
    else:
        assert name == "ddp"
    assert not own
    one = operator_meaning(0, world, 1, 1, level, degree, True, False)
    return PlanMeaning(samples * steps * world, samples * world, "1f1b", (tuple(range(world)),), (one,) * shape.operators, offload, knobs)
