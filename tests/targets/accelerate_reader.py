"""Reads accelerate's file as its ClusterConfig does (accelerate/commands/config/config_args.py), and holds the environment that is written
beside it to what its launcher would make of the file (accelerate/utils/launch.py)."""
from meaning import LEVELS, PlanMeaning, operator_meaning

FIELDS = {"compute_environment", "distributed_type", "num_processes", "fsdp_config", "deepspeed_config", "parallelism_config"}


def parsed(text):
    """Names with values, and names of objects whose members are indented by two."""
    tree, part = {}, None
    for line in text.splitlines():
        name, _, value = line.strip().partition(":")
        if line.startswith("  "):
            tree[part][name] = value.strip()
        elif value:
            tree[name] = value.strip()
        else:
            part = name
            tree[part] = {}
    assert set(tree) <= FIELDS, "unknown keys"
    return tree


def read(answer, world, shape):
    tree, environment = parsed(answer["file_text"]), answer["environment"]
    words = dict(zip(answer["arguments"][::2], answer["arguments"][1::2]))
    assert tree["compute_environment"] == "LOCAL_MACHINE" and int(tree["num_processes"]) == world
    samples, steps = int(words.pop("--per_device_train_batch_size")), int(words.pop("--gradient_accumulation_steps"))
    assert not words and environment["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] == str(steps)
    level, degree, recompute, offload = "none", world, False, False
    kind = tree["distributed_type"]
    if kind == "DEEPSPEED":
        said = tree["deepspeed_config"]
        assert environment["ACCELERATE_USE_DEEPSPEED"] == "true" and int(said["gradient_accumulation_steps"]) == steps
        assert environment["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == said["zero_stage"] and said["offload_param_device"] == "none"
        level, offload = LEVELS[int(said["zero_stage"])], said["offload_optimizer_device"] == "cpu"
    elif kind == "FSDP":
        said = tree["fsdp_config"]
        assert said["fsdp_version"] == "2" and said["fsdp_auto_wrap_policy"] == "TRANSFORMER_BASED_WRAP"
        level = {"true": "parameters", "false": "gradients"}[said["fsdp_reshard_after_forward"]]
        recompute = said["fsdp_activation_checkpointing"] == "true"
        assert {f"FSDP_{name[5:].upper()}": value for name, value in said.items()}.items() <= environment.items()
    else:
        assert kind == ("MULTI_GPU" if world > 1 else "NO")
    assert environment.get("ACCELERATE_USE_FSDP", "false") == ("true" if kind == "FSDP" else "false")
    mesh = tree.get("parallelism_config")
    if mesh:
        degree = int(mesh["parallelism_config_dp_shard_size"])
        assert kind == "FSDP" and int(mesh["parallelism_config_dp_replicate_size"]) * degree == world
        assert {name.upper(): value for name, value in mesh.items()}.items() <= environment.items()
    operators = tuple(operator_meaning(0, world, 1, 1, level, degree, True, recompute and shape.layer_of(index) is not None)
                      for index in range(shape.operators))
    return PlanMeaning(samples * steps * world, samples * world, "1f1b", (tuple(range(world)),), operators, offload, ())
