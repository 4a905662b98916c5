"""What accelerate's own launcher makes of a file: each line of standard input is {"file_text": ..., "environment": {...}, "world": 8,
"expected": {...}}; each line of standard output is "" or what differs, or what is objected.

The file goes through ClusterConfig, `accelerate launch`'s parser and its checks. What it would put into the ranks' environment must have
what was written for ranks that start without it, and accelerate's plugins, which read that environment, must mean the plan. DS_ACCELERATOR=cpu
"""
import json
import os
import pathlib
import sys
import tempfile

KINDS = ("FSDP_", "PARALLELISM_CONFIG_", "ACCELERATE_USE_", "ACCELERATE_DEEPSPEED_", "ACCELERATE_GRADIENT_ACCUMULATION")


def launched(path, launch, utils):
    """The environment that the launcher gives its ranks, and what it has read."""
    args = launch.launch_command_parser().parse_args(["--config_file", str(path), "--main_process_port", "0", "train.py"])
    args, _, _ = launch._validate_launch_command(args)
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ""
        return args, utils.prepare_deepspeed_cmd_env(args)[1]
    return args, utils.prepare_multi_gpu_env(args)


def meaning(case, folder, accelerate, launch, utils):
    path = pathlib.Path(folder) / "accelerate.yaml"
    path.write_text(case["file_text"], encoding="utf-8")
    args, environment = launched(path, launch, utils)
    for name, value in case["environment"].items():
        made = environment.get(name, "false" if value == "false" else value if "STEPS" in name and not args.use_deepspeed else None)
        assert made == value, f"{name}: the launcher says {made}, written is {value}"
    # Ranks that start without the launcher have the written ones alone.
    for name in [name for name in os.environ if name.startswith(KINDS)]:
        del os.environ[name]
    os.environ.update(case["environment"])
    meant = {"ranks": args.num_processes, "level": "none", "stage": None, "degree": 1, "recompute": False, "offload": False}
    if args.use_deepspeed:
        plugin = accelerate.DeepSpeedPlugin()
        zero = plugin.deepspeed_config["zero_optimization"]
        meant.update(level=None, stage=zero["stage"], offload=zero["offload_optimizer"]["device"] == "cpu")
        assert str(plugin.deepspeed_config["gradient_accumulation_steps"]) == case["environment"]["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"]
    if args.use_fsdp:
        plugin = accelerate.FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == 2
        meant.update(level="parameters" if plugin.reshard_after_forward else "gradients", recompute=plugin.activation_checkpointing,
                     degree=args.num_processes)
    if os.environ.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
        mesh = accelerate.parallelism_config.ParallelismConfig()
        assert mesh.total_size == args.num_processes and mesh.non_data_parallel_size == 1
        meant["degree"] = mesh.dp_shard_size
    return meant


def objection(case, *modules):
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        try:
            meant = meaning(case, folder, *modules)
        except (ValueError, AssertionError, TypeError, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            os.environ.clear()
            os.environ.update(before)
    return "" if meant == case["expected"] else f"expected {case['expected']}, found {meant}"


def main():
    said, sys.stdout = sys.stdout, sys.stderr
    import accelerate
    from accelerate.commands import launch
    from accelerate.utils import launch as utils

    for line in sys.stdin:
        print(json.dumps(objection(json.loads(line), accelerate, launch, utils)), file=said, flush=True)


main()
