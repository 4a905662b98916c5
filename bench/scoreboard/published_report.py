"""What is told of a score: tables, pictures, the worst rows, what is left out, and what is missed and why."""

import collections
import re
import statistics

from published_baselines import PEERS, RULES, median_regrets, roofline_errors, rule_regrets, rules_table
from published_document import Code, Heading, Paragraph, Picture, Table
from published_misses import REASONS, aims
from published_plot import cell_bars, figure, scatter_panels
from published_rows import GIB
from published_scores import cells, choice, does_not_fit, errors, evident_outcome, fit_counts, nodes, predicted_memory, predicted_step
from published_scores import UNDECIDED

SEEN = ("sc21", "mcore_h100", "internevo", "fms_fsdp", "kwai", "mtnlg", "mcore_golden")
KINDS = {
    "first_peak": "PyTorch's peak on rank 0, the first stage. Allocated or reserved is not stated, and reserved is compared",
    "allocated": "PyTorch's peak allocated, maximum over ranks",
    "allocated_last": "PyTorch's peak allocated on the last rank, which logs in Megatron-LM",
    "reserved": "PyTorch's peak reserved",
    "nvidia_smi": "the process by nvidia-smi, of the first or the last stage's GPU",
    "printed": '"GPU memory" as printed, tool not stated. The process is compared',
}


class Told:
    """Rows and answers by family."""

    def __init__(self, rows, answers, score):
        self.pairs, self.score = list(zip(rows, answers)), score
        self.families = collections.defaultdict(list)
        for pair in self.pairs:
            self.families[pair[0].family].append(pair)
        dense = [name for name in self.families if not name.endswith(".experts")]
        self.scored = sorted(name for name in dense if name not in SEEN)
        self.seen = [name for name in SEEN if name in self.families]
        self.experts = sorted(name for name in self.families if name.endswith(".experts"))

    def small_ultrascale(self, clean):
        return [
            pair
            for pair in self.families.get("ultrascale", [])
            if nodes(pair[0]) < 64 and (pair[0].clean or not clean)
        ]


def report(rows, answers, score, command):
    told = Told(rows, answers, score)
    parts = [Heading("Estimates beside published measurements", 1)]
    for section in (_introduction, _families, _time, _memory, _choices, _fit, _peers, _misses, _worst, _left_out):
        parts += section(told, command) if section is _introduction else section(told)
    return parts


def percent(value, digits=1):
    return "" if value is None else f"{100 * value:.{digits}f}"


def _introduction(told, command):
    return [
        Paragraph(
            "Trimtab prices plans from data sheets and a few constants, with nothing measured on the user's machine. Here its estimates "
            f"stand beside {len(told.pairs)} plans whose speed or memory others have published. A question holds GPU, network, the "
            "model's shape and the plan, and nothing that was measured. The table of published plans is not part of this repository."
        ),
        Code([command]),
        Paragraph(
            "The constants may have seen the families "
            + ", ".join(f"`{name}`" for name in SEEN)
            + ", data sheets and published bandwidths of collectives. The others are scored. All errors are per cent of the measured value. "
            "A row without an answer counts as an error of 100, or a regret of 100. Clean rows have no flag in the table of published plans."
        ),
        Paragraph(
            "No number was fitted to a scored family. But the errors of all published families could be seen while the model was written, and some of "
            "its structure was chosen then: that sources of frameworks and of the seen families were read again, which bytes an allocator keeps "
            "waiting, that products of unaligned shapes are slower, how little a product of its own hides, that buckets wait for the network one by "
            "one, that Ultra-Scale's memory is what is reserved, what float8 casts, and what it gathers in one byte, what torch.compile hides of "
            "tensor parallelism, and the chance of 95 % that `plan find` asks for. Rows that nobody has seen are the better judge."
        ),
    ]


def _families(told):
    """Whose measurements these are."""
    table = Table(["family", "rows", "flagged", "software", "GPUs", "sources"], [], (0, 3, 4, 5))
    for name in told.scored + told.seen + told.experts:
        rows = [row for row, _ in told.families[name]]
        sources = collections.Counter(
            words for row in rows for words in re.findall(r"arXiv[ :]?[0-9.]+[0-9]|[\w.-]+/[\w.-]+(?=@)", row.columns.get("source", ""))
        )
        table.rows.append(
            [name, len(rows), sum(not row.clean for row in rows), _named(_short(row.columns.get("software", "")) for row in rows)]
            + [_named(row.columns.get("gpu", "") for row in rows), ", ".join(words for words, _ in sources.most_common(3))]
        )
    return [
        Heading("Whose measurements"),
        Paragraph("Rows of models with experts, or with latent attention, are families of their own. They are not priced yet, and not counted."),
        table,
    ]


def _short(software):
    return re.split(r"[@(,]| \d", software)[0].strip()


def _named(words):
    found = [word for word, _ in collections.Counter(words).most_common(4) if word]
    return ", ".join(found)


def _time(told):
    header = ["family", "rows", "mean", "median", "p95", "largest", "bias", "factor", "roofline", "in interval", "all rows", "mean", "roofline"]
    table = Table(header, [], (0,))
    for name in told.scored + told.seen:
        members = told.families[name]
        clean = told.score["families"][name]["clean"].get("time")
        every = told.score["families"][name]["all"].get("time")
        if not every:
            continue
        base = roofline_errors([pair for pair in members if pair[0].clean])
        row = [name + (" (seen)" if name in SEEN else "")]
        if clean:
            row += [clean["n"], *(percent(clean[key]) for key in ("mean", "median", "p95", "max", "bias"))]
            row += [_middle_factor(members), percent(base["mean"]), percent(told.score["coverage"].get(name), 0)]
        else:
            row += [0, *[""] * 8]
        table.rows.append(row + [every["n"], percent(every["mean"]), percent(roofline_errors(members)["mean"])])
    panels = [(name, _times(told.families[name])) for name in told.scored + told.seen]
    return [
        Heading("Seconds of a step"),
        Paragraph(
            "Clean rows first. Factor: the median of predicted over measured or its reciprocal, whichever is above 1. The roofline takes six "
            "operations a parameter and token at 40 % of the GPU's peak. In interval: the share of clean rows whose measured time lies between "
            "`least_s` and `most_s`, of which nine in ten are expected."
        ),
        table,
        Paragraph(_over_families(told)),
        Picture("time", "Predicted (up) and measured (right) seconds a step. Dashed: 25 % off. Brown: flagged rows.", scatter_panels(panels, "s")),
        *_one_given(told),
    ]


def _middle_factor(pairs):
    ratios = [predicted_step(answer) / row.step_s for row, answer in pairs if row.clean and row.step_s and predicted_step(answer) > 0]
    return f"{statistics.median(max(ratio, 1 / ratio) for ratio in ratios):.2f}" if ratios else ""


def _over_families(told):
    means = [told.score["families"][name]["clean"]["time"]["mean"] for name in told.scored if "time" in told.score["families"][name]["clean"]]
    small = [(predicted_step(answer), row.step_s) for row, answer in told.small_ultrascale(True) if row.step_s]
    words = f"Mean over the {len(means)} scored families with clean rows: {percent(statistics.fmean(means))} %." if means else ""
    return words + (f" Ultra-Scale up to 32 nodes: {percent(errors(small)['mean'])} %." if small else "")


def _times(pairs):
    groups = {"flagged": [], "clean": []}
    for row, answer in pairs:
        if row.step_s and predicted_step(answer) > 0:
            groups["clean" if row.clean else "flagged"].append((row.step_s, predicted_step(answer)))
    return groups


def _one_given(told):
    table = Table(["family", "groups", "answers", "mean before", "mean", "median", "p95", "bias", "first choice given, mean"], [])
    given = told.score.get("given_one", {})
    for name in told.scored + told.seen:
        if name in given:
            row = given[name]
            table.rows.append(
                [name + (" (seen)" if name in SEEN else ""), row["groups"], row["n"], percent(row["before"])]
                + [percent(row[key]) for key in ("mean", "median", "p95", "bias", "first_choice")]
            )
    if not table.rows:
        return []
    return [
        Heading("With one step measured", 3),
        Paragraph(
            "One clean row of a cell is given as the user's own measurement on the same machine and model, and the cell's other rows are "
            "asked again. Up to five rows of a cell are given, one at a time. In the last column it is the plan that is predicted to be the "
            "fastest, which a user would run first."
        ),
        table,
    ]


def _memory(told):
    table = Table(["family", "kind", "rows", "mean", "median", "p95", "largest", "bias"], [], (0, 1))
    panels = []
    used = set()
    for name in told.scored + told.seen:
        for kind, figures in told.score["families"][name]["all"]["memory"].items():
            clean = told.score["families"][name]["clean"]["memory"].get(kind, figures)
            used.add(kind)
            table.rows.append(
                [name + (" (seen)" if name in SEEN else ""), kind, clean["n"]]
                + [percent(clean[key]) for key in ("mean", "median", "p95", "max", "bias")]
            )
            panels.append((f"{name}, {kind}", _memories(told.families[name], kind)))
    if not table.rows:
        return []
    return [
        Heading("Memory"),
        Paragraph("Clean rows. Where a family has none, all. Kinds are not mixed: " + "; ".join(f"`{kind}`: {KINDS[kind]}" for kind in KINDS if kind in used) + "."),
        table,
        Picture("memory", "Predicted (up) and measured (right) GiB. Dashed: 25 % off. Brown: flagged rows.", scatter_panels(panels, "GiB")),
    ]


def _memories(pairs, kind):
    groups = {"flagged": [], "clean": []}
    for row, answer in pairs:
        predicted = predicted_memory(answer, kind)
        if row.memory_bytes and row.memory_kind == kind and predicted > 0:
            groups["clean" if row.clean else "flagged"].append((row.memory_bytes / GIB, predicted / GIB))
    return groups


def _choices(told):
    parts = [
        Heading("Choices"),
        Paragraph(
            "A cell holds five or more plans of one model on one cluster that ran. Regret is what the estimate's first choice loses in "
            "tokens a second beside the best plan. It chooses as `plan find` does: the fastest with a chance of 95 % or more to fit. In the last "
            "two columns it chooses among failed plans, too. A failed choice loses 100."
        ),
    ]
    header = ["family", "cells", "Spearman", "regret median", "mean", "worst", "best of 3, mean", "with failed, median", "mean"]
    keys = ("spearman_median", "regret_median", "regret_mean", "regret_max", "top3_mean", "regret_all_median", "regret_all_mean")
    table = Table(header, [])
    for name in told.scored + told.seen:
        groups = [(f"{name}, {which}", told.score["families"][name][which]) for which in ("clean", "all")]
        if name == "ultrascale":
            groups = [(words + ", to 32 nodes", group) for words, group in groups]
            groups += [(f"{name}, {which}, 64 nodes", told.score["families"][name].get("nodes64", {}).get(which, {})) for which in ("clean", "all")]
        for words, group in groups:
            if "cells" in group:
                figures = group["cells"]
                table.rows.append([words, figures["n"], f"{figures['spearman_median']:.2f}", *(percent(figures[key]) for key in keys[1:])])
    parts.append(table)
    clean = told.small_ultrascale(True)
    if cells(clean):
        parts += _ultrascale(clean, rules_table(clean))
    return parts


def _ultrascale(clean, rules):
    regrets = rule_regrets(clean, RULES["least model parallelism that fits"], False)
    median = median_regrets(clean)
    chosen = {name: choice(members) for name, members in cells(clean).items()}
    bars, table = [], Table(["cell", "plans", "best, tokens/s/GPU", "Spearman", "regret", "least parallelism", "median plan"], [])
    for name in sorted(chosen, key=lambda name: (name[0].rsplit("-", 1)[0], int(name[3]))):
        one, short = chosen[name], name[0].removeprefix("ultrascale-")
        table.rows.append(
            [short, one["plans"], f"{one['best']:.0f}", f"{one['spearman']:.2f}", percent(one["regret"]), percent(regrets[name]), percent(median[name])]
        )
        bars.append((short, {"pick": 1 - one["regret"], "rule": 1 - regrets[name], "median": 1 - median[name]}))
    ruled = Table(["rule, clean cells up to 32 nodes", "median regret", "mean", "worst"], [])
    ruled.rows = [[name, percent(row["median"]), percent(row["mean"]), percent(row["max"])] for name, row in rules.items()]
    return [
        ruled,
        table,
        Picture("choices", "Speed of the chosen plan in per cent of the best", cell_bars(bars, "Ultra-Scale, clean cells: speed in per cent of the best plan")),
    ]


def _fit(told):
    table = Table(["rows", "precision", "recall", "predicted", "true", "both"], [])
    for words, key in (("all", "all"), ("with evidence", "with_evidence")):
        table.rows.append(_fit_row(words, told.score["fit"][key]))
    limits = collections.defaultdict(list)
    for pair in told.pairs:
        if not pair[0].flags & UNDECIDED and not pair[0].family.endswith(".experts"):
            limits[f"{pair[0].family}, {pair[0].columns.get('gpu_memory_gib', '')} GB"].append(pair)
    for words, members in sorted(limits.items()):
        counts = fit_counts(members)
        if counts["true"] or counts["predicted"]:
            table.rows.append(_fit_row(words, counts))
        evident = fit_counts([pair for pair in members if evident_outcome(pair[0])])
        if evident["true"] and evident["true"] < counts["true"]:
            table.rows.append(_fit_row(f"{words}, with evidence", evident))
    return [
        Heading("What does not fit"),
        Paragraph(
            "A plan is said not to fit if its chance to fit is below one half. Out of memory and failed rows are true. Ultra-Scale's "
            "failures also have other causes, so the second line holds only those that two smaller microbatches extrapolate to be too large, "
            "beside known ones of other families."
        ),
        table,
    ]


def _fit_row(words, counts):
    return [words, percent(counts["precision"]), percent(counts["recall"]), counts["predicted"], counts["true"], counts["both"]]


def _peers(told):
    table = Table(["tool", "its error", "measured on"], [list(peer) for peer in PEERS], (0, 1, 2))
    parts = [Heading("Other tools"), Paragraph("As their authors state it. All profile the machine first."), table]
    rows = [(row, answer) for row, answer in told.pairs if row.peer_step_s and row.step_s and row.question]
    if rows:
        theirs = errors([(row.peer_step_s, row.step_s) for row, _ in rows])
        ours = errors([(predicted_step(answer), row.step_s) for row, answer in rows])
        names = ", ".join(sorted({row.peer or "a peer" for row, _ in rows}))
        parts.append(
            Paragraph(
                f"On the {len(rows)} rows of this table that have a peer's own prediction ({names}): {percent(theirs['mean'])} % by the peer, "
                f"{percent(ours['mean'])} % here."
            )
        )
    return parts


def _misses(told):
    table = Table(["aim", "value", "reached", "cause"], [], (0, 2, 3))
    for words, value, shown, reached, key in aims(told):
        table.rows.append([words, shown, "yes" if reached else "no", "" if reached else REASONS.get(key, "not known")])
    return [Heading("Aims, and what is missed"), table] if table.rows else []


def _worst(told):
    parts = [Heading("The worst clean rows of each scored family")]
    table = Table(["row", "model", "GPUs", "plan", "measured, s", "predicted, s", "error"], [], (0, 1, 3))
    for name in told.scored:
        timed = [pair for pair in told.families[name] if pair[0].step_s and (pair[0].clean or not _any_clean(told.families[name]))]
        timed.sort(key=lambda pair: -abs(predicted_step(pair[1]) / pair[0].step_s - 1))
        for row, answer in timed[:5]:
            predicted = predicted_step(answer)
            table.rows.append(
                [row.id, row.columns.get("model", ""), row.columns.get("gpus", ""), plan_words(row), figure(row.step_s), figure(predicted)]
                + [percent(predicted / row.step_s - 1, 0)]
            )
    parts.append(table)
    return parts if table.rows else []


def _any_clean(pairs):
    return any(row.clean and row.step_s for row, _ in pairs)


def plan_words(row):
    if row.question is None:
        return row.refusal
    plan = row.question["plan"]
    words = [f"{name}{plan[name]}" for name in ("dp", "tp", "pp", "vpp", "cp") if plan[name] > 1 or name == "dp"]
    words.append(f"mb{plan['microbatch']}")
    if plan["sharded"] != "nothing":
        words.append({"optimizer": "zero1", "gradients": "zero2", "parameters": "zero3"}[plan["sharded"]])
    if plan["recompute"] != "nothing":
        words.append(plan["recompute"])
    if plan["precision"] == "float8":
        words.append("fp8")
    return " ".join(words)


def _left_out(told):
    flags = Table(["family", "flag", "rows", "timed", "mean error"], [], (0, 1))
    for name in told.scored + told.seen:
        groups = collections.defaultdict(list)
        for pair in told.families[name]:
            for flag in pair[0].flags:
                groups[flag].append(pair)
        for flag, members in sorted(groups.items()):
            timed = [(predicted_step(answer), row.step_s) for row, answer in members if row.step_s]
            flags.rows.append([name, flag, len(members), len(timed), percent(errors(timed)["mean"]) if timed else ""])
    reasons = collections.Counter()
    assumed = collections.Counter()
    for row, answer in told.pairs:
        if "error" in answer:
            reasons[row.family, _general(answer["error"])] += 1
        for words in row.assumed:
            assumed[row.family, words] += 1
    parts = [Heading("Flags, and rows without an answer")]
    if flags.rows:
        parts += [Paragraph("Flagged rows count in the columns of all rows alone."), flags]
    if reasons:
        parts.append(Table(["family", "why there is no answer", "rows"], [[*key, count] for key, count in sorted(reasons.items())], (0, 1)))
    if assumed:
        parts += [
            Paragraph("What a row leaves open is taken as usual for its software (bench/scoreboard/published_rows.py has the sources):"),
            Table(["family", "assumed", "rows"], [[*key, count] for key, count in sorted(assumed.items())], (0, 1)),
        ]
    return parts


def _general(words):
    """Without a question's own numbers."""
    return "".join("N" if letter.isdigit() else letter for letter in words.split("\n")[0][:160]).replace("NN", "N").replace("NN", "N")
