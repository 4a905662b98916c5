"""Reads a Trainer's arguments as HfArgumentParser and TrainingArguments do (transformers/training_args.py)."""
import json

import deepspeed_reader
from meaning import PlanMeaning, operator_meaning

BOOL = {"True": True, "False": False}


def parsed(words):
    """Each of these options takes one word."""
    assert len(words) % 2 == 0 and all(name.startswith("--") for name in words[::2])
    return {name[2:]: value for name, value in zip(words[::2], words[1::2])}


def with_layers_recomputed(read, shape):
    return PlanMeaning(read.global_batch, read.microbatch, read.schedule, read.devices,
                       tuple(operator_meaning(one.stage, one.dp, one.tp, one.cp, one.sharded, one.sharded_degree, True,
                                              shape.layer_of(index) is not None) for index, one in enumerate(read.operators)),
                       read.offload_optimizer, read.knobs)


def read(words, world, shape):
    values = parsed(words)
    samples, steps = int(values.pop("per_device_train_batch_size")), int(values.pop("gradient_accumulation_steps"))
    recompute = BOOL[values.pop("gradient_checkpointing")]
    if "deepspeed" in values:
        config = json.loads(values.pop("deepspeed"))
        assert not values and config["train_micro_batch_size_per_gpu"] == samples and config["gradient_accumulation_steps"] == steps
        assert [config.pop(name) for name in ("bf16", "fp16", "gradient_clipping")] == [{"enabled": "auto"}, {"enabled": "auto"}, "auto"]
        meant = deepspeed_reader.read(json.dumps(config), world, shape)
        return with_layers_recomputed(meant, shape) if recompute else meant
    knobs, level = (), "none"
    if "ddp_bucket_cap_mb" in values:
        knobs = (("bucket_bytes", int(values.pop("ddp_bucket_cap_mb")) << 20),)
    if "fsdp" in values:
        strategy, config = values.pop("fsdp"), json.loads(values.pop("fsdp_config"))
        assert config.pop("version") == 2 and not recompute and not knobs
        level = {"full_shard auto_wrap": "parameters", "shard_grad_op auto_wrap": "gradients"}[strategy]
        assert config.pop("reshard_after_forward") == (level == "parameters")
        recompute = config.pop("activation_checkpointing")
        assert not config
    assert not values
    operators = tuple(operator_meaning(0, world, 1, 1, level, world, True, recompute and shape.layer_of(index) is not None)
                      for index in range(shape.operators))
    return PlanMeaning(samples * steps * world, samples * world, "1f1b", (tuple(range(world)),), operators, False, knobs)
