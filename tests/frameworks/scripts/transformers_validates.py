"""What transformers' own parser and TrainingArguments say of words: each line of standard input is {"arguments": [...], "world": 8,
"expected": {...}}; each line of standard output is "" or what differs, or what is objected.

ACCELERATE's plugin is made of what the arguments give it. No group of ranks is: the number of them is put in its place.
"""
import json
import os
import sys
import tempfile


def meaning(arguments, world, transformers, plugin):
    """What a plan says, in the arguments' own words."""
    (read,) = transformers.HfArgumentParser(transformers.TrainingArguments).parse_args_into_dataclasses(
        ["--output_dir", tempfile.gettempdir(), "--report_to", "none", *arguments], look_for_args_file=False)
    meant = {"batch": read.per_device_train_batch_size * read.gradient_accumulation_steps * world,
             "microbatch": read.per_device_train_batch_size, "recompute": read.gradient_checkpointing, "bucket_mib": read.ddp_bucket_cap_mb,
             "level": "none", "stage": None, "bucket_elements": None, "offload": False}
    if read.fsdp:
        made = plugin(**read.fsdp_plugin_args)
        assert made.fsdp_version == 2 and not read.gradient_checkpointing
        meant.update(level="parameters" if made.reshard_after_forward else "gradients", recompute=bool(made.activation_checkpointing))
    if read.deepspeed:
        config = read.hf_deepspeed_config.config
        zero = config["zero_optimization"]
        meant.update(level=None, stage=zero["stage"], bucket_elements=zero.get("reduce_bucket_size"), offload="offload_optimizer" in zero)
        assert config["train_batch_size"] == meant["batch"] and config["bf16"] == {"enabled": read.bf16}
    return meant


def objection(case, transformers, plugin):
    transformers.TrainingArguments.world_size = property(lambda self: case["world"])
    try:
        meant = meaning(case["arguments"], case["world"], transformers, plugin)
    except (ValueError, AssertionError, TypeError, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return "" if meant == case["expected"] else f"expected {case['expected']}, found {meant}"


def main():
    said, sys.stdout = sys.stdout, sys.stderr
    import transformers
    from accelerate import FullyShardedDataParallelPlugin

    for line in sys.stdin:
        before = dict(os.environ)
        print(json.dumps(objection(json.loads(line), transformers, FullyShardedDataParallelPlugin)), file=said, flush=True)
        os.environ.clear()
        os.environ.update(before)


main()
