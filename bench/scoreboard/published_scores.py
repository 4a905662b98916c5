"""The scores of estimates beside published measurements. Ratios, not per cent.

`score(rows, answers)` has these members. A group without rows is left out:

    families.NAME.{clean,all}.time                 n, mean, median, p95, max of |p - m| / m, bias: mean of (p - m) / m
    families.NAME.{clean,all}.memory.KIND          the same. Kinds: MEMORY_KINDS of published_rows
    families.NAME.{clean,all}.cells                choices among plans that compete, see below
    families.ultrascale.nodes64.{clean,all}...     the same three of Ultra-Scale's plans on 64 nodes
    fit.{all,with_evidence}                        precision, recall, predicted, true, both of "does not fit"
    coverage.NAME                                  share of unflagged measured step times in [least_s, most_s]
    given_one.NAME                                 of published_given: errors of time with one measured row of the cell given

- clean: rows without any flag. Quantiles are nearest ranks.
- A row without an answer has an error of 1 and a bias of -1, as if nothing had been predicted.
- A cell is five or more plans that ran, of the same `cell`, model, GPU, number of GPUs, sequence and batch. (Some families
  put unlike clusters into one `cell`. A batch that is not stated is the usual one of its cell.) Plans are ordered by
  tokens a second and GPU. Plans without an answer come last. Of equal predictions the slower plan is taken.
- `regret_*`, `top3_mean` and `spearman_median` are over plans that ran. `regret_all_*` are over ran and failed plans. The
  choice is that of `trimtab plan find`: the fastest of those with a chance of 0.95 or more to fit. Where none has it, the
  one with the best chance. Of ran and failed plans that must be 0.5 or more. To choose none, or a failed one, is 1.
- families.ultrascale.{clean,all}.cells are the cells up to 32 nodes. Those of 64 nodes are in nodes64 alone. Its time and
  memory cover all nodes.
- "Does not fit" is true of rows that are out of memory and of failed ones, false of those that ran. Rows that say both
  (also_ran, also_failed), that no program can run (pp_exceeds_layers) and whose batch is another (gbs_mismatch) are
  left out. with_evidence also leaves out failures without the evidence "over". No answer predicts nothing.
- precision is null if nothing is predicted, recall if nothing is true.
- Rows of models with experts or latent attention are the family NAME.experts. They are in neither fit nor coverage.
"""

import collections
import math
import statistics

LEAST_PLANS = 5
LEAST_CHANCE = 0.95  # to fit, of a plan that `trimtab plan find` offers
UNDECIDED = {"also_ran", "also_failed", "pp_exceeds_layers", "gbs_mismatch"}


def score(rows, answers):
    pairs = list(zip(rows, answers))
    families = collections.defaultdict(list)
    for pair in pairs:
        families[pair[0].family].append(pair)
    result = {"families": {}, "fit": fit(pairs), "coverage": {}}
    for name, members in sorted(families.items()):
        result["families"][name] = family_score(members, name)
        if not name.endswith(".experts"):
            inside = [covered(*pair) for pair in members if pair[0].clean and pair[0].step_s]
            if inside:
                result["coverage"][name] = sum(inside) / len(inside)
    return result


def family_score(pairs, name):
    result = {}
    for which, members in (("clean", [pair for pair in pairs if pair[0].clean]), ("all", pairs)):
        apart = name == "ultrascale"
        result[which] = group_score(members, [pair for pair in members if not (apart and nodes(pair[0]) >= 64)])
    large = [pair for pair in pairs if nodes(pair[0]) >= 64]
    if name == "ultrascale" and large:
        result["nodes64"] = {
            "clean": group_score([pair for pair in large if pair[0].clean]),
            "all": group_score(large),
        }
    return result


def group_score(pairs, competing=None):
    result = {}
    times = [(predicted_step(answer), row.step_s) for row, answer in pairs if row.step_s]
    if times:
        result["time"] = errors(times)
    kinds = collections.defaultdict(list)
    for row, answer in pairs:
        if row.memory_bytes:
            kinds[row.memory_kind].append((predicted_memory(answer, row.memory_kind), row.memory_bytes))
    result["memory"] = {kind: errors(values) for kind, values in sorted(kinds.items())}
    choices = [choice(members) for members in cells(pairs if competing is None else competing).values()]
    if choices:
        result["cells"] = cells_score(choices)
    return result


def errors(values):
    """Of pairs (predicted, measured)."""
    signed = [(predicted - measured) / measured for predicted, measured in values]
    sizes = sorted(abs(error) for error in signed)
    return {
        "n": len(sizes),
        "mean": statistics.fmean(sizes),
        "median": statistics.median(sizes),
        "p95": sizes[math.ceil(0.95 * len(sizes)) - 1],
        "max": sizes[-1],
        "bias": statistics.fmean(signed),
    }


def predicted_step(answer):
    return 0.0 if "error" in answer else number(answer.get("step_s"))


def number(value):
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def predicted_memory(answer, kind):
    """Bytes, 0 without an answer."""
    memory = answer.get("memory")
    if not isinstance(memory, dict):
        return 0.0
    if kind == "nvidia_smi":  # of the first or the last stage
        outside = number(memory.get("process")) - number(memory.get("allocated"))
        return outside + max(stage_bytes(memory, 0), stage_bytes(memory, -1))
    if kind == "allocated_last":
        return stage_bytes(memory, -1)
    if kind == "first_peak":
        kept = number(memory.get("reserved")) - number(memory.get("allocated"))
        return number(memory.get("first_reserved")) or stage_bytes(memory, 0) + kept
    return number(memory.get("process" if kind == "printed" else kind))


def stage_bytes(memory, which):
    stages = memory.get("stages") or []
    if not stages or not isinstance(stages[which], dict):
        return number(memory.get("first_allocated" if which == 0 else "allocated"))
    stage = stages[which]
    if "allocated" in stage:
        return number(stage["allocated"])
    return sum(number(stage.get(part)) for part in ("parameters", "gradients", "optimizer", "activations", "peak"))


def predicted_rate(row, answer):
    """Tokens a second and GPU, 0 without an answer."""
    step = predicted_step(answer)
    if step <= 0 or row.question is None:
        return 0.0
    question = row.question
    return question["plan"]["global_batch"] * question["model"]["sequence"] / step / question["gpus"]


def expected_rate(row, answer):
    """A plan that does not fit has no speed."""
    memory = answer.get("memory")
    fits = memory.get("fits", 1.0) if isinstance(memory, dict) else 1.0
    return predicted_rate(row, answer) * number(fits)


def found_rate(row, answer):
    """As `trimtab plan find` orders plans: by speed those with a chance of LEAST_CHANCE to fit, then the others by chance."""
    fits = number(answer.get("memory", {}).get("fits", 1.0))
    return (fits >= LEAST_CHANCE, predicted_rate(row, answer) if fits >= LEAST_CHANCE else fits)


def does_not_fit(answer):
    memory = answer.get("memory")
    return isinstance(memory, dict) and "fits" in memory and number(memory["fits"]) < 0.5


def covered(row, answer):
    return "error" not in answer and number(answer.get("least_s")) <= row.step_s <= number(answer.get("most_s"))


def nodes(row):
    for name, divisor in (("nodes", 1.0), ("gpus", 8.0)):
        try:
            return math.ceil(float(row.columns.get(name) or "") / divisor)
        except (ValueError, OverflowError):
            continue
    return 0


def cells(pairs):
    """Name -> pairs of plans that compete. Those that failed are among them."""
    batches = collections.defaultdict(collections.Counter)
    for row, _ in pairs:
        if row.columns.get("gbs"):
            batches[row.cell][row.columns["gbs"]] += 1
    result = collections.defaultdict(list)
    for row, answer in pairs:
        get = row.columns.get
        batch = get("gbs") or (batches[row.cell].most_common(1)[0][0] if batches[row.cell] else "")
        result[row.cell, *(get(name, "") for name in ("model", "gpu", "gpus", "seq")), batch].append((row, answer))
    ran = {name: sum(1 for row, _ in members if rate_of(row)) for name, members in result.items()}
    return {name: members for name, members in result.items() if name[0] and ran[name] >= LEAST_PLANS}


def rate_of(row):
    return row.tokens_per_s_per_gpu if row.outcome == "ran" else None


def choice(pairs):
    """How well a cell's plans are ordered."""
    ran = [(predicted_rate(row, answer), rate_of(row)) for row, answer in pairs if rate_of(row)]
    best = max(measured for _, measured in ran)
    answered = max(predicted for predicted, _ in ran) > 0
    found = [(found_rate(row, answer), rate_of(row)) for row, answer in pairs if rate_of(row)]
    ordered = sorted(sorted(found, key=lambda plan: plan[1]), key=lambda plan: plan[0], reverse=True)
    candidates = [
        (found_rate(row, answer), rate_of(row) or 0.0)
        for row, answer in pairs
        if predicted_rate(row, answer) > 0 and not does_not_fit(answer) and (rate_of(row) or row.outcome != "ran")
    ]
    picked = max(candidates, key=lambda plan: (plan[0], -plan[1]), default=(0.0, 0.0))
    regrets = [1 - measured / best for _, measured in ordered]
    return {
        "plans": len(ran),
        "best": best,
        "spearman": spearman([plan[0] for plan in ran], [plan[1] for plan in ran]),
        "regret": regrets[0] if answered else 1.0,
        "top3": min(regrets[:3]) if answered else 1.0,
        "top5": min(regrets[:5]) if answered else 1.0,
        "regret_all": 1 - picked[1] / best,
    }


def cells_score(choices):
    def of(name):
        return [choice[name] for choice in choices]

    return {
        "n": len(choices),
        "spearman_median": statistics.median(of("spearman")),
        "regret_median": statistics.median(of("regret")),
        "regret_mean": statistics.fmean(of("regret")),
        "regret_max": max(of("regret")),
        "top3_mean": statistics.fmean(of("top3")),
        "regret_all_median": statistics.median(of("regret_all")),
        "regret_all_mean": statistics.fmean(of("regret_all")),
    }


def ranks(values):
    """From 1, equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for index in order[begin:end]:
            result[index] = (begin + end + 1) / 2
        begin = end
    return result


def spearman(first, second):
    """0 if either is constant."""
    a, b = ranks(first), ranks(second)
    mean = (len(a) + 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    scale = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return product / scale if scale else 0.0


def fit(pairs):
    decided = [(row, answer) for row, answer in pairs if not row.flags & UNDECIDED and not row.family.endswith(".experts")]
    evident = [pair for pair in decided if evident_outcome(pair[0])]
    return {"all": fit_counts(decided), "with_evidence": fit_counts(evident)}


def evident_outcome(row):
    return row.outcome in ("ran", "oom") or row.evidence == "over"


def fit_counts(pairs):
    predicted = sum(does_not_fit(answer) for _, answer in pairs)
    true = sum(row.outcome != "ran" for row, _ in pairs)
    both = sum(row.outcome != "ran" and does_not_fit(answer) for row, answer in pairs)
    return {
        "precision": both / predicted if predicted else None,
        "recall": both / true if true else None,
        "predicted": predicted,
        "true": true,
        "both": both,
    }
