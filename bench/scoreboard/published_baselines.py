"""What stands beside an estimate: a plain roofline, rules of thumb, and what other tools say of themselves.

The roofline takes 40 % of the dense peak for six operations a parameter and token. It is the same for all plans of a cell.
"""

import statistics

from published_scores import cells, errors, nodes, rate_of

# Dense bfloat16 (of a V100 float16) peak in TFLOP/s, from the data sheets. float8 doubles it. The H100 of 96 GB has no
# data sheet: bfloat16's peak of its kin is taken for all.
PEAKS = (
    ("v100", 125.0),
    ("a100", 312.0),
    ("a800", 312.0),
    ("h100-pcie", 756.0),
    ("h100", 989.0),
    ("h800", 989.0),
    ("gh200", 989.0),
    ("h200", 989.0),
    ("gb200", 2500.0),
    ("gb300", 2500.0),
    ("b200", 2250.0),
    ("b300", 2250.0),
    ("mi300", 1300.0),
    ("mi250", 383.0),
    ("l40s", 362.0),
)
SHARE = 0.4


def parameters(model):
    """Of all matrices, embedding and head."""
    attention = model["hidden"] * model["head_dim"] * 2 * (model["heads"] + model["kv_heads"])
    mlp = (3 if model["gated"] else 2) * model["hidden"] * model["ffn"]
    vocabulary = model["vocabulary"] * model["hidden"] * (1 if model["tied"] else 2)
    return model["layers"] * (attention + mlp) + vocabulary


def roofline(question):
    """Seconds of a step, 0 if the GPU is not known."""
    name = question["gpu"].lower()
    peak = next((value for part, value in PEAKS if part in name), 0.0) * 1e12
    plan, model = question["plan"], question["model"]
    if plan["precision"] == "float8" and "h100-96gb" not in name:
        peak *= 2
    tokens = plan["global_batch"] * model["sequence"]
    return 6 * parameters(model) * tokens / (SHARE * peak * question["gpus"]) if peak else 0.0


def roofline_errors(pairs):
    values = [(roofline(row.question) if row.question else 0.0, row.step_s) for row, _ in pairs if row.step_s]
    return errors(values) if values else None


def _degree(row, name):
    return row.question["plan"][name]


# Of a plan: what a rule looks at first. Least wins.
RULES = {
    "least model parallelism that fits": lambda row: _degree(row, "tp") * _degree(row, "pp"),
    "tp = 8 in the node, then pp": lambda row: (abs(_degree(row, "tp") - 8), _degree(row, "pp")),
}


def usual_ties(row):
    """Less pp, larger microbatches, ZeRO-1."""
    return (_degree(row, "pp"), -_degree(row, "microbatch"), 0 if _degree(row, "sharded") == "optimizer" else 1)


def rule_regrets(pairs, rule, unlucky):
    """Of each cell, among the plans that ran. `unlucky`: the slowest of those that the rule does not tell apart."""
    regrets = {}
    for name, members in cells(pairs).items():
        ran = [row for row, _ in members if rate_of(row) and row.question]
        best = max(rate_of(row) for row in ran)
        least = min(map(rule, ran))
        tied = [row for row in ran if rule(row) == least]
        if unlucky:
            picked = min(tied, key=rate_of)
        else:
            picked = min(tied, key=lambda row: (usual_ties(row), -rate_of(row)))
        regrets[name] = 1 - rate_of(picked) / best
    return regrets


def median_regrets(pairs):
    result = {}
    for name, members in cells(pairs).items():
        rates = [rate_of(row) for row, _ in members if rate_of(row)]
        result[name] = 1 - statistics.median(rates) / max(rates)
    return result


def rules_table(pairs):
    """Rule -> mean, median and worst regret of cells up to 32 nodes, and their number."""
    pairs = [pair for pair in pairs if nodes(pair[0]) < 64]
    found = {}
    for name, rule in RULES.items():
        found[name] = rule_regrets(pairs, rule, False)
        found[f"{name}, unlucky tie"] = rule_regrets(pairs, rule, True)
    found["the median plan"] = median_regrets(pairs)
    return {name: regret_figures(list(values.values())) for name, values in found.items() if values}


def regret_figures(values):
    return {
        "n": len(values),
        "mean": statistics.fmean(values),
        "median": statistics.median(values),
        "max": max(values),
    }


# Peer, figure, what it was measured on. Each as its authors or the data's keepers state it.
PEERS = (
    ("SimuMax", "5.6 % in time, 0.5 % in memory", "its 43 own B200 rows, one node, on a machine that it profiled"),
    ("vTrain", "8.4 % in time on one node, 14.7 % on 512 GPUs", "its own rows, operators profiled on such a GPU"),
    ("Primus", "5 to 9 % in time", "its own rows"),
)
