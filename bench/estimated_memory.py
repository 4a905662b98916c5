"""Prints how far estimates of memory are from published measurements: by family and by kind of memory, and for plans that did not fit.

    bench/estimated_memory.py plans.csv [--family NAME] [--rows] [--command "build/release/bin/trimtab plan estimate"]

Kinds are those of bench/scoreboard/published_rows.py. Errors are of (estimate - measured) / measured, in per cent. No kind
is compared with another: `allocated` is what PyTorch's allocator has given out, `reserved` what it holds.
"""

import argparse
import collections
import math
import pathlib
import shlex
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "scoreboard"))

from published_answers import estimates
from published_rows import read_rows

GIB = 2.0**30

# Kind of a measurement -> the member of the answer's memory. nanotron's log is written after the peak was reset within the
# step (nanotron/trainer.py, training_step), so what it shows is what the allocator holds.
MEMBERS = {
    "allocated": ("allocated",),
    "first_peak": ("first_reserved", "first_allocated"),
    "allocated_last": ("last_allocated", "allocated"),
    "reserved": ("reserved",),
    "nvidia_smi": ("process",),
    "printed": ("process",),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans")
    parser.add_argument("--family")
    parser.add_argument("--rows", action="store_true", help="print each row")
    parser.add_argument("--command", default=f"{ROOT}/build/release/bin/trimtab plan estimate")
    options = parser.parse_args()
    rows = [row for row in read_rows(options.plans) if not options.family or row.family == options.family]
    answers = estimates(rows, shlex.split(options.command))
    if answers and all("error" in answer for answer in answers):
        sys.exit(f"no row has an answer. The first says: {answers[0]['error']}")
    print_errors(rows, answers, options.rows)
    print_fits(rows, answers)


def print_errors(rows, answers, each):
    errors = collections.defaultdict(list)
    for row, answer in zip(rows, answers):
        if not row.memory_bytes:
            continue
        if "error" in answer:
            errors[row.family, row.memory_kind].append(None)
            continue
        estimate = estimated(answer, row.memory_kind)
        error = estimate / row.memory_bytes - 1
        errors[row.family, row.memory_kind].append(error)
        if each:
            print(line_of(row, answer, estimate, error))
    print("family               kind                n  no answer   mean  median    p95    max   bias")
    for (family, kind), found in sorted(errors.items()):
        known = [error for error in found if error is not None]
        print(f"{family:20s} {kind:16s} {len(found):4d} {len(found) - len(known):10d} " + in_words(known))


def estimated(answer, kind):
    memory = answer["memory"]
    return next(memory[member] for member in MEMBERS[kind] if member in memory)


def in_words(errors):
    if not errors:
        return ""
    sizes = sorted(abs(error) for error in errors)
    p95 = sizes[min(len(sizes) - 1, math.ceil(0.95 * len(sizes)) - 1)]
    figures = (statistics.mean(sizes), statistics.median(sizes), p95, sizes[-1], statistics.mean(errors))
    return " ".join(f"{100 * figure:6.1f}" for figure in figures)


def line_of(row, answer, estimate, error):
    plan = row.question["plan"]
    words = f"dp{plan['dp']} tp{plan['tp']} pp{plan['pp']} vpp{plan['vpp']} cp{plan['cp']} mb{plan['microbatch']}"
    parts = answer["memory"]["stages"][0]
    shares = " ".join(f"{name[:5]} {parts[name] / GIB:.1f}" for name in ("parameters", "gradients", "optimizer", "activations", "peak"))
    many = row.question["plan"]["global_batch"] // (plan["microbatch"] * plan["dp"])
    sizes = f"{row.memory_bytes / GIB:6.1f} {estimate / GIB:6.1f} {100 * error:+6.1f} %"
    name = f"{row.id:18s} {row.question['model']['name']:18s}"
    return f"{name} {words} x{many} {plan['sharded'][:3]} {sizes}  {shares}  {' '.join(row.flags)}"


def print_fits(rows, answers):
    """Rows that ran or did not fit. A failed row counts where another cause is not known (the data's README)."""
    other = {"also_ran", "pp_exceeds_layers", "gbs_mismatch"}
    counts = collections.defaultdict(collections.Counter)
    for row, answer in zip(rows, answers):
        if "error" in answer or row.outcome not in ("ran", "oom", "failed"):
            continue
        if row.outcome != "ran" and row.flags & other:
            continue
        fits = answer["memory"]["fits"] >= 0.5
        kinds = ["all"]
        if row.outcome != "failed" or row.evidence == "over":
            kinds.append("with_evidence")
        for kind in kinds:
            counts[row.family, kind][row.outcome == "ran", fits] += 1
    for (family, kind), count in sorted(counts.items()):
        right, missed, wrong = count[False, False], count[False, True], count[True, False]
        if right + missed == 0:
            continue
        precision = right / (right + wrong) if right + wrong else math.nan
        print(
            f"does not fit: {family} {kind}: precision {100 * precision:.1f} % recall {100 * right / (right + missed):.1f} % "
            f"({right} right, {missed} missed, {wrong} that ran)"
        )


if __name__ == "__main__":
    main()
