"""Reads torchtitan's overrides as torchtitan does (config/manager.py, distributed/parallel_dims.py, trainer.py).

Words behind `--section.key` are its value; a flag has none, and with no- in front it is off. Before 0.3 a policy of
recomputation is a mode, since then the subcommand at the end.
"""
from meaning import PlanMeaning, operator_meaning

POLICY = "activation-checkpoint:"


def parsed(words):
    values, key = {}, None
    for number, word in enumerate(words):
        if word.startswith("--"):
            key = word[2:]
            values[key] = []
        elif word.startswith(POLICY):
            assert number + 1 == len(words), "what follows a subcommand is the subcommand's"
            values["policy"] = [word[len(POLICY):]]
        else:
            values[key].append(word)
    return values


def read(words, world_size, shape):
    values = parsed(words)

    def number(key, section="parallelism"):
        (text,) = values[f"{section}.{key}"]
        return int(text)

    pp, tp, cp = (number(f"{kind}_parallel_degree") for kind in ("pipeline", "tensor", "context"))
    replicate, shard = number("data_parallel_replicate_degree"), number("data_parallel_shard_degree")
    assert replicate * shard * cp * tp * pp == world_size, "Invalid parallel dims"
    assert values["training.no-enable_cpu_offload"] == []
    dp = replicate * shard
    batch, local = number("global_batch_size", "training"), number("local_batch_size", "training")
    assert batch % (local * dp) == 0, "global batch size must be multiple of local batch size times data-parallel degree"
    kind, micro, counts = "1f1b", local, [shape.layers]
    if pp > 1:
        micro = number("pipeline_parallel_microbatch_size")
        assert batch == local * dp and local % micro == 0
        parts = [part.split(",") for part in values["parallelism.module_fqns_per_model_part"]]
        assert parts[0][0] == "tok_embeddings" and parts[-1][-2] == "norm"
        assert parts[-1][-1] == ("lm_head" if "policy" in values else "output")
        named = [[name for name in part if name.startswith("layers.")] for part in parts]
        assert sum(named, []) == [f"layers.{layer}" for layer in range(shape.layers)]
        counts = [len(part) for part in named]
        (schedule,) = values["parallelism.pipeline_parallel_schedule"]
        kind = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved"}[schedule]
        assert len(counts) % pp == 0 and (len(counts) > pp) == (kind == "interleaved")
    level = "none"
    if shard * cp > 1:
        (policy,) = values["parallelism.fsdp_reshard_after_forward"]
        level = {"always": "parameters", "never": "gradients"}[policy]
    python = "policy" in values
    (mode,) = values["policy"] if python else values["activation_checkpoint.mode"]
    every = {"none": 0, "full": 1}.get(mode) if mode != "selective" else number("selective_ac_option", "activation_checkpoint")
    stages = [stage for stage, count in enumerate(counts) for _ in range(count)]
    seen, recomputed = [0] * pp, []
    for stage in stages:
        seen[stage % pp] += 1
        recomputed.append(bool(every) and seen[stage % pp] % every == 0)
    operators = []
    for index in range(shape.operators):
        layer = shape.layer_of(index)
        stage = stages[layer] if layer is not None else 0 if index < shape.before else len(counts) - 1
        operators.append(operator_meaning(stage, dp, tp, cp, level, shard, True, layer is not None and recomputed[layer]))
    size = dp * tp * cp
    devices = tuple(tuple(range(stage % pp * size, (stage % pp + 1) * size)) for stage in range(len(counts)))
    shared = tp > 1 and (not python or "parallelism.enable_sequence_parallel" in values)
    assert python or "parallelism.enable_sequence_parallel" not in values
    return PlanMeaning(batch, micro * dp, kind, devices, tuple(operators), False, (("sequence_parallel", True),) if shared else ())
