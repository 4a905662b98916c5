"""Reads a DeepSpeed configuration as DeepSpeed does.

Fields, types and limits are those of deepspeed/runtime/zero/config.py and offload_config.py, whose models forbid fields
that they do not know; the batch sizes must agree as in deepspeed/runtime/config.py.
"""
import json

from meaning import PlanMeaning, operator_meaning

ZERO_FIELDS = {
    "stage": (int, 0, 3), "reduce_bucket_size": (int, 0, None), "allgather_bucket_size": (int, 0, None),
    "contiguous_gradients": (bool, None, None), "reduce_scatter": (bool, None, None), "overlap_comm": (bool, None, None),
    "offload_optimizer": (dict, None, None), "offload_param": (dict, None, None), "sub_group_size": (int, 0, None),
}
OFFLOAD_FIELDS = {"device": (str, None, None), "pin_memory": (bool, None, None), "ratio": (float, 0, 1)}
BATCH_FIELDS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def checked(values, fields, where):
    for name, value in values.items():
        assert name in fields, f"{where}.{name}: extra fields are not permitted"
        kind, low, high = fields[name]
        assert type(value) is kind, f"{where}.{name}: {value!r}"
        assert low is None or value >= low, f"{where}.{name}: {value!r}"
        assert high is None or value <= high, f"{where}.{name}: {value!r}"
    return values


def read(text, world_size, shape):
    config = json.loads(text)
    zero = checked(config.get("zero_optimization", {}), ZERO_FIELDS, "zero_optimization")
    offload = checked(zero.get("offload_optimizer", {}), OFFLOAD_FIELDS, "offload_optimizer")
    batch, micro, steps = (config[name] for name in BATCH_FIELDS)
    assert batch > 0 and micro > 0 and steps > 0 and batch == micro * steps * world_size
    level = ("none", "optimizer", "gradients", "parameters")[zero["stage"]]
    if offload:
        assert offload["device"] == "cpu" and zero["stage"] > 0
    one = operator_meaning(0, world_size, 1, 1, level, world_size, True, False)
    knobs = {"bucket_bytes": 4 * zero["reduce_bucket_size"]} if "reduce_bucket_size" in zero else {}
    return PlanMeaning(batch, micro * world_size, "1f1b", (tuple(range(world_size)),), (one,) * shape.operators,
                       bool(offload), tuple(knobs.items()))
