"""What torchtitan's own configuration, dimensions and pipeline code says of overrides: each line of standard input is {"arguments": [...],
"world": 8, "layers": 6, "expected": {...}}; each line of standard output is "" or what it objects, or where it reads anything else. Its folder is
an argument; without one it is the installed 0.3. Packages that have nothing to do with a configuration may be absent."""
import importlib.abc
import importlib.machinery
import json
import sys
import types
import unittest.mock

ABSENT = ["torch.utils.tensorboard", "wandb", "datasets", "torch_checkpointing", "PIL", "torchvision", "torchao", "torchdata",
          "torchtitan.distributed.minimal_async_ep.kernels", "torchtitan.models.moe.kernels"]
SHARDED = {"never": "gradients", "always": "parameters"}


class Anything(types.ModuleType):
    """A module of whatever classes are asked for."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls), "__init__": lambda self, *a, **k: None,
                               "__call__": lambda self, given=None, *a, **k: given})


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        absent = any(name == one or name.startswith(one + ".") for one in ABSENT)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        pass


def parsed(arguments):
    """The configuration, and the name of its policy of recomputation."""
    if TOML:
        config = ConfigManager().parse_args(arguments)
        return config, config.activation_checkpoint.mode
    config = ConfigManager().parse_args(["--module", "llama3", "--config", "llama3_debugmodel", *arguments])
    policy = config.activation_checkpoint
    return config, {"NoneType": "none", "Config": type(policy).__qualname__.removesuffix("AC.Config").lower()}[type(policy).__name__]


def dimensions(parallelism, world):
    if not TOML:
        return parallel_dims.ParallelDims.from_config(parallelism, world)
    return parallel_dims.ParallelDims(
        dp_replicate=parallelism.data_parallel_replicate_degree, dp_shard=parallelism.data_parallel_shard_degree,
        cp=parallelism.context_parallel_degree, tp=parallelism.tensor_parallel_degree, pp=parallelism.pipeline_parallel_degree,
        ep=parallelism.expert_parallel_degree, etp=parallelism.expert_tensor_parallel_degree, world_size=world)


def schedule_of(config, dims):
    """PyTorch's schedule over stand-ins for a rank's stages, made by torchtitan's code."""
    parts = config.parallelism.module_fqns_per_model_part
    stages = [unittest.mock.MagicMock(num_stages=len(parts), group_size=dims.pp, group_rank=0, stage_index=index)
              for index in range(0, len(parts), dims.pp)]
    if TOML:
        return pipeline_parallel.build_pipeline_schedule(config, stages, print)
    return pipeline_parallel._build_pipeline_schedule(parallelism=config.parallelism, local_batch_size=config.training.local_batch_size,
                                                      stages=stages, loss_fn=print)


def said(case):
    config, policy = parsed(case["arguments"])
    dims = dimensions(config.parallelism, case["world"])
    training, parallelism = config.training, config.parallelism
    assert training.global_batch_size % (training.local_batch_size * dims.dp_replicate * dims.dp_shard) == 0
    assert training.seq_len % dims.seq_len_divisor == 0 or not (TOML or parallelism.enable_sequence_parallel)
    assert not training.enable_cpu_offload
    answer = {"dims": [dims.dp_replicate, dims.dp_shard, dims.cp, dims.tp, dims.pp], "batch": training.global_batch_size,
              "microbatch": training.local_batch_size, "policy": policy, "sharded": "none", "layers": [case["layers"]], "schedule": ""}
    if policy == "selective":
        answer["policy"] = int(config.activation_checkpoint.selective_ac_option)
    if dims.fsdp_enabled:
        answer["sharded"] = SHARDED[parallelism.fsdp_reshard_after_forward]
    if dims.tp_enabled and not TOML:
        answer["sequence_parallel"] = parallelism.enable_sequence_parallel
    if dims.pp_enabled:
        if not TOML:
            pipeline_parallel._get_pipeline_metadata(dims, parallelism, types.SimpleNamespace(layers=[None] * case["layers"]))
        answer["schedule"] = type(schedule_of(config, dims)).__name__
        answer["microbatch"] = parallelism.pipeline_parallel_microbatch_size
        answer["layers"] = [sum(name.startswith("layers.") for name in part) for part in parallelism.module_fqns_per_model_part]
    return answer


def objection(case):
    try:
        answer = said(case)
    except (AssertionError, ValueError, KeyError, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    other = {name: value for name, value in answer.items() if case["expected"].get(name) != value}
    return f"read {other}, of a plan that is {case['expected']}" if other else ""


sys.path[:0] = sys.argv[1:2]
sys.meta_path.insert(0, Absent())
output, sys.stdout = sys.stdout, sys.stderr
from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.distributed import parallel_dims, pipeline_parallel  # noqa: E402

TOML = not hasattr(parallel_dims.ParallelDims, "from_config")
for line in sys.stdin:
    print(json.dumps(objection(json.loads(line))), file=output, flush=True)
