"""Reads a Galvatron strategy file as Galvatron does (config2strategy and get_hybrid_parallel_configs_api).

Lists are texts of integers between commas; what is missing has their defaults; embedding and head follow vtp, vcp and
vocab_sdp (embed_sdp in files before 2.4).
"""
import json

from meaning import PlanMeaning, operator_meaning


def numbers(text):
    return list(map(int, text.split(",")))


def read(text, world_size, shape):
    config = json.loads(text)
    pp = config["pp_deg"]
    tp = numbers(config["tp_sizes_enc"])
    cp = numbers(config["cp_sizes_enc"]) if "cp_sizes_enc" in config else [1] * len(tp)
    consecutive = numbers(config["tp_consecutive_flags"])
    types = numbers(config["dp_types_enc"])
    assert not any(numbers(config["use_sp"]))
    batch, chunks = config["global_bsz"], config["chunks"]
    checkpoint = numbers(config["checkpoint"]) if "checkpoint" in config else [0] * len(tp)
    assert len(tp) == shape.layers, "Layer_num in json config does not match layer_num in the model!"
    division = numbers(config["pp_division"])
    assert len(division) == pp and sum(division) == shape.layers
    ranks = [stage for stage, count in enumerate(division) for _ in range(count)]
    assert world_size % pp == 0
    size = world_size // pp
    assert config["default_dp_type"] in ("ddp", "zero2", "zero3")
    usual = {"ddp": "none", "zero2": "gradients", "zero3": "parameters"}[config["default_dp_type"]]
    vtp, vcp = config.get("vtp", 1), config.get("vcp", 1)
    end_type = config.get("vocab_sdp", config.get("embed_sdp", 0))
    for values in (tp, cp, consecutive, types, checkpoint):
        assert len(values) == shape.layers
    for value in tp:
        assert 1 <= value <= size and size % value == 0, "Wrong tp_size!"
    for value in consecutive + types + checkpoint:
        assert value in (0, 1)
    assert batch % (size // min(tp + [vtp]) // min(cp + [vcp])) == 0

    def meaning(stage, tp_size, cp_size, kind, flag, recompute):
        dp = size // tp_size // cp_size
        return operator_meaning(stage, dp, tp_size, cp_size, "parameters" if kind else usual, dp, bool(flag),
                                bool(recompute))

    operators = []
    for index in range(shape.operators):
        layer = shape.layer_of(index)
        if layer is None:
            operators.append(meaning(0 if index < shape.before else pp - 1, vtp, vcp, end_type, 1, 0))
        else:
            operators.append(meaning(ranks[layer], tp[layer], cp[layer], types[layer], consecutive[layer],
                                     checkpoint[layer]))
    kind = {"pipedream_flush": "1f1b", "gpipe": "gpipe"}[config["pipeline_type"]]
    devices = tuple(tuple(range(stage * size, (stage + 1) * size)) for stage in range(pp))
    return PlanMeaning(batch, batch // chunks, kind, devices, tuple(operators), False, ())
