"""Reads Megatron-LM's arguments as Megatron-LM does.

The options are those of megatron/training/arguments.py and the dataclasses behind it (ModelParallelConfig,
TransformerConfig, TrainingConfig, DistributedInitConfig): the same names, types, choices and defaults; then the checks
of validate_args that concern them, the layer layout of pipeline_parallel_layer_layout.py, and the rank order
"tp-cp-ep-dp-pp" of parallel_state.py.
"""
import argparse
import re

from meaning import PlanMeaning, operator_meaning


class ArgumentError(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ArgumentError(message)


def parser():
    out = Parser(allow_abbrev=False)
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
                 "num-distributed-optimizer-instances"):
        out.add_argument("--" + name, type=int, default=1)
    for name in ("micro-batch-size", "global-batch-size", "recompute-num-layers", "ddp-bucket-size",
                 "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"):
        out.add_argument("--" + name, type=int, default=None)
    out.add_argument("--pipeline-model-parallel-layout", type=str, default=None)
    out.add_argument("--recompute-granularity", choices=("full", "selective"), default=None)
    out.add_argument("--recompute-method", choices=("uniform", "block"), default=None)
    out.add_argument("--recompute-modules", nargs="+", type=str, default=None)
    out.add_argument("--data-parallel-sharding-strategy", default="optim_grads_params",
                     choices=["no_shard", "optim", "optim_grads", "optim_grads_params"])
    out.add_argument("--ckpt-format", default="torch_dist",
                     choices=["torch", "torch_dist", "torch_dcp", "fsdp_dtensor"])
    for name in ("sequence-parallel", "use-distributed-optimizer", "use-megatron-fsdp", "optimizer-cpu-offload",
                 "use-precision-aware-optimizer",
                 "overlap-grad-reduce", "overlap-param-gather"):
        out.add_argument("--" + name, action="store_true")
    return out


def layer_layout(text):
    """[["E", "t"], ["t", "L"]]: commas are cosmetic, (…)*n and x*n repeat, | parts stages."""
    text = text.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        text = re.sub(pattern, lambda found: found.group(1) * int(found.group(2)), text)
    stages = [list(stage) for stage in text.split("|")]
    for letter in (letter for stage in stages for letter in stage):
        assert letter in "ELtm", letter
    return stages


def validate(args, world_size, layers, sequence):
    """Returns layers by stage, in the order of the layers, and the number of groups of devices."""
    model_size = args.tensor_model_parallel_size * args.pipeline_model_parallel_size * args.context_parallel_size
    assert world_size % model_size == 0
    args.data_parallel_size = world_size // model_size
    assert args.micro_batch_size > 0 and args.global_batch_size > 0
    assert args.global_batch_size % (args.micro_batch_size * args.data_parallel_size) == 0
    size = args.pipeline_model_parallel_size
    if args.tensor_model_parallel_size == 1:
        assert not args.sequence_parallel
    if args.context_parallel_size > 1:
        assert sequence % (2 * args.context_parallel_size) == 0
    if args.sequence_parallel:
        assert sequence // args.context_parallel_size % args.tensor_model_parallel_size == 0
    if args.use_megatron_fsdp:
        assert args.ckpt_format == "fsdp_dtensor"
        args.use_distributed_optimizer = True
    if args.optimizer_cpu_offload:
        assert args.use_distributed_optimizer
    if args.overlap_param_gather:
        assert args.use_distributed_optimizer and args.overlap_grad_reduce
    if args.recompute_granularity == "full":
        assert args.recompute_method in ("uniform", "block") and args.recompute_num_layers is not None
    if args.recompute_granularity == "selective":
        assert args.recompute_num_layers is None and args.recompute_method is None
    assert (args.data_parallel_size * args.context_parallel_size) % args.num_distributed_optimizer_instances == 0
    if args.pipeline_model_parallel_layout is None:
        assert layers % size == 0, "Number of layers should be divisible by the pipeline-model-parallel size"
        return [layers // size] * size
    layout = layer_layout(args.pipeline_model_parallel_layout)
    assert len(layout) % size == 0
    flat = [letter for stage in layout for letter in stage]
    assert flat[0] == "E" and flat[-1] == "L" and flat.count("E") == flat.count("L") == 1
    assert flat.count("t") == layers and "m" not in flat
    rounds = len(layout) // size
    # Interleaved pipelines need a microbatch group as large as the pipeline.
    if rounds > 1:
        assert size > 1 and args.global_batch_size // (args.micro_batch_size * args.data_parallel_size) >= size
    return [stage.count("t") for stage in layout]


def stage_devices(args, world_size):
    """Global ranks of each pipeline rank: with order tp-cp-ep-dp-pp the pipeline's stride is the largest."""
    sizes = {"tp": args.tensor_model_parallel_size, "cp": args.context_parallel_size, "dp": args.data_parallel_size,
             "pp": args.pipeline_model_parallel_size}
    devices = [[] for _ in range(sizes["pp"])]
    for rank in range(world_size):
        rest = rank
        for axis in ("tp", "cp", "dp"):
            rest //= sizes[axis]
        devices[rest].append(rank)
    return devices


def recomputed_operators(args, shape, counts):
    if args.recompute_granularity is None:
        return set()
    if args.recompute_granularity == "selective":
        assert args.recompute_modules == ["mlp"]
        return {index for index in range(shape.operators) if shape.is_mlp(index)}
    layers, first = set(), 0
    for count in counts:
        if args.recompute_method == "uniform":
            assert args.recompute_num_layers == 1
            layers |= set(range(first, first + count))
        else:
            layers |= set(range(first, first + min(count, args.recompute_num_layers)))
        first += count
    return {index for layer in layers for index in range(*shape.layer_range(layer))}


def sharding(args):
    if args.use_megatron_fsdp:
        level = {"no_shard": "none", "optim": "optimizer", "optim_grads": "gradients",
                 "optim_grads_params": "parameters"}[args.data_parallel_sharding_strategy]
        return level, args.data_parallel_size
    if args.use_distributed_optimizer:
        return "optimizer", args.data_parallel_size // args.num_distributed_optimizer_instances
    return "none", 1


def read(arguments, world_size, shape):
    args = parser().parse_args(arguments)
    counts = validate(args, world_size, shape.layers, shape.sequence)
    devices = stage_devices(args, world_size)
    stage_of_layer = [stage for stage, count in enumerate(counts) for _ in range(count)]
    recompute = recomputed_operators(args, shape, counts)
    level, degree = sharding(args)
    operators = []
    for index in range(shape.operators):
        layer = shape.layer_of(index)
        if layer is not None:
            stage = stage_of_layer[layer]
        else:
            stage = 0 if index < shape.before else len(counts) - 1
        operators.append(operator_meaning(stage, args.data_parallel_size, args.tensor_model_parallel_size,
                                          args.context_parallel_size, level, degree, True, index in recompute))
    knobs = {}
    if args.sequence_parallel:
        knobs["sequence_parallel"] = True
    if args.ddp_bucket_size is not None:
        assert args.overlap_grad_reduce
        knobs["bucket_bytes"] = 4 * args.ddp_bucket_size
    if args.overlap_param_gather:
        knobs["overlap_parameter_gather"] = True
    size = args.pipeline_model_parallel_size
    return PlanMeaning(
        args.global_batch_size, args.micro_batch_size * args.data_parallel_size,
        "interleaved" if len(counts) > size else "1f1b",
        tuple(tuple(devices[stage % size]) for stage in range(len(counts))), tuple(operators),
        args.optimizer_cpu_offload, tuple(sorted(knobs.items())))
