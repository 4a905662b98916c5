"""Reads the file of PyTorch's own data parallelism, holding it to PyTorch's source as it is installed here.

FullyShardedDataParallel of Debian's version cannot be imported under its Python, so its parameters and strategies are
read from the source's syntax tree; the hybrid strategies came with PyTorch 2.0.
"""
import ast
import json
import pathlib

import torch

from meaning import PlanMeaning, operator_meaning

HYBRID = {"HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"}
STRATEGIES = {"NO_SHARD": "none", "SHARD_GRAD_OP": "gradients", "_HYBRID_SHARD_ZERO2": "gradients",
              "FULL_SHARD": "parameters", "HYBRID_SHARD": "parameters"}


def _tree(path):
    return ast.parse((pathlib.Path(torch.__file__).parent / path).read_text(encoding="utf-8"))


def _class(tree, name):
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)


def constructor_parameters(path, name):
    body = _class(_tree(path), name).body
    init = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    return {argument.arg for argument in init.args.args + init.args.kwonlyargs}


def enumeration(path, name):
    return {target.id for node in _class(_tree(path), name).body if isinstance(node, ast.Assign)
            for target in node.targets}


FSDP_SOURCE = "distributed/fsdp/fully_sharded_data_parallel.py"


def read(text, world_size, shape):
    config = json.loads(text)
    assert config["schema"] == "trimtab.parallel/1" and config["world_size"] == world_size
    assert config["layers"] == shape.layers
    micro, steps = config["samples_per_microbatch"], config["accumulation_steps"]
    assert config["global_batch"] == micro * steps * world_size
    knobs, level, degree = {}, "none", world_size
    if config["kind"] == "ddp":
        parameters = constructor_parameters("nn/parallel/distributed.py", "DistributedDataParallel")
        if "bucket_cap_mb" in config:
            assert "bucket_cap_mb" in parameters
            knobs["bucket_bytes"] = int(config["bucket_cap_mb"] * 1024 * 1024)  # as its constructor does
        level = "optimizer" if config["zero_redundancy_optimizer"] else "none"
    elif config["kind"] == "fsdp2":
        degree = config["shard_group_size"]
        level = "none" if degree == 1 else "parameters" if config["reshard_after_forward"] else "gradients"
        assert world_size % degree == 0
    else:
        assert "sharding_strategy" in constructor_parameters(FSDP_SOURCE, "FullyShardedDataParallel")
        strategy = config["sharding_strategy"]
        assert strategy in enumeration(FSDP_SOURCE, "ShardingStrategy") | HYBRID
        level, degree = STRATEGIES[strategy], config["shard_group_size"]
        assert (strategy in HYBRID) == (1 < degree < world_size)
    checkpointed = set(config["checkpoint_layers"])
    operators = tuple(
        operator_meaning(0, world_size, 1, 1, level, degree, True, shape.layer_of(index) in checkpointed)
        for index in range(shape.operators))
    return PlanMeaning(config["global_batch"], micro * world_size, "1f1b", (tuple(range(world_size)),), operators, False,
                       tuple(knobs.items()))
