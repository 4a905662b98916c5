"""How often a prediction's 95 % interval holds what a real step takes, over plans of a job's whole space.

    bench/interval_coverage.py --job examples/gpt-cpu/job.toml --model M --cluster C --costs costs.db --calibration gpt-cpu
                               [--plans 60] [--seed 1] [--steps 4] [--out FILE.md]

The plans are those of measure_plans.py: all of one stage, and of those of two as many as are asked for. They are predicted with
the calibration that a tune of this job has left in costs.db, and measured one after another in one launch; the job's initial
plan stands between every eight of them. A prediction speaks of the machine as it was when the job was tuned, so the table has
two judgements: of the step as it is, and of the step divided by how much slower or faster than predicted the initial plan was
beside it. No plan is left out for its size: they run without the job's memory limit, and one that fails is counted as failed,
not as covered.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import tomllib

import measure_plans

BETWEEN = 8  # Plans from one look at the initial plan to the next.
WARMUP = 1


def predict(options, plan):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(plan))
        file.flush()
        words = ["evaluate", "--model", options.model, "--cluster", options.cluster, "--costs", options.costs,
                 "--plan", file.name, "--json"]
        if options.calibration:
            words += ["--calibration", options.calibration]
        done = subprocess.run([measure_plans.ROOT / "build/release/bin/trimtab", *words], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def drawn(model, count, seed):
    """All plans of one stage, and of those of two so many, in a random order."""
    space = list(measure_plans.all_plans(model))
    generator = random.Random(seed)
    plans = [plan for plan in space if len(plan["stages"]) == 1]
    plans += generator.sample([plan for plan in space if len(plan["stages"]) == 2], count)
    generator.shuffle(plans)
    return plans


def in_turn(initial, plans):
    """The order of the run: the initial plan before each eight plans and at the end; which places are the initial plan's."""
    order, looks = [], []
    for start in range(0, len(plans), BETWEEN):
        looks.append(len(order))
        order += [initial, *plans[start : start + BETWEEN]]
    looks.append(len(order))
    return [*order, initial], looks


def pace(place, looks, slower):
    """How the machine was at a place: between the looks before and after it."""
    before = max(look for look in looks if look <= place)
    after = min(look for look in looks if look >= place)
    return (slower[before] + slower[after]) / 2


def judge(order, looks, results, predictions):
    median = {place: statistics.median(result["ms"]) for place, result in results.items() if result.get("ms")}
    slower = {look: median[look] / predictions[look]["iteration_ms"] for look in looks}
    rows = []
    for place, plan in enumerate(order):
        if place in looks:
            continue
        low, high = predictions[place]["interval_ms"]
        row = {"plan": measure_plans.describe(plan), "microbatch": plan["microbatch"], "stages": len(plan["stages"]),
               "predicted": predictions[place]["iteration_ms"], "low": low, "high": high}
        if place in median:
            row["measured"] = median[place]
            row["paced"] = median[place] / pace(place, looks, slower)
        rows.append(row)
    return rows, slower


def summary(name, rows):
    ran = [row for row in rows if "measured" in row]
    if not ran:
        return f"| {name} | {len(rows)} | {len(rows)} | – | – | – | – |"
    inside = lambda key: sum(row["low"] <= row[key] <= row["high"] for row in ran) / len(ran)
    wrong = statistics.median(abs(row["predicted"] / row["paced"] - 1) for row in ran)
    width = statistics.median((row["high"] - row["low"]) / 2 / row["predicted"] for row in ran)
    return (f"| {name} | {len(rows)} | {len(rows) - len(ran)} | {inside('measured'):.0%} | {inside('paced'):.0%} "
            f"| {wrong:.1%} | ±{width:.1%} |")


def table(options, rows, slower):
    of_stages = lambda count: [row for row in rows if row["stages"] == count]
    of_microbatch = lambda size: [row for row in rows if row["microbatch"] == size]
    worst = sorted((row for row in rows if "paced" in row and not row["low"] <= row["paced"] <= row["high"]),
                   key=lambda row: -abs(row["predicted"] / row["paced"] - 1))
    return "\n".join([
        "# Intervals of predictions on real steps", "",
        f"Made by `{options.command}`.", "",
        f"All plans of one stage and {options.plans} drawn of those of two with seed {options.seed}; of each the median of "
        f"{options.steps} steps after {WARMUP}. "
        f"The initial plan, looked at {len(slower)} times, took {min(slower.values()):.2f} to {max(slower.values()):.2f} of its prediction.", "",
        "| plans | drawn | failed | in the interval | the same, at the initial plan's pace | median error at that pace | half width, median |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        summary("all", rows), summary("one stage, data parallel", of_stages(1)), summary("two stages", of_stages(2)),
        *(summary(f"microbatch {size}", of_microbatch(size)) for size in sorted({row["microbatch"] for row in rows})),
        "", "Outside at the initial plan's pace, worst first:" if worst else "None was outside at the initial plan's pace.", "",
        *(f"- {row['plan']}: {row['low']:.0f} to {row['high']:.0f} ms, measured {row['measured']:.0f}, at that pace {row['paced']:.0f}"
          for row in worst),
    ]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--job", "--model", "--cluster", "--costs"):
        parser.add_argument(name, required=True)
    parser.add_argument("--calibration", help="the job whose calibration is used; without it, predictions are the benchmark's alone")
    parser.add_argument("--config", default=str(measure_plans.ROOT / "examples/gpt-cpu/gpt.toml"))
    parser.add_argument("--plans", type=int, default=60, help="of two stages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.command = " ".join(["bench/interval_coverage.py", *sys.argv[1:]])
    options.warmup = WARMUP
    job = tomllib.loads(pathlib.Path(options.job).read_text())
    initial = json.loads((pathlib.Path(options.job).parent / job["initial_plan"]).read_text())
    model = json.loads(pathlib.Path(options.model).read_text())
    order, looks = in_turn(initial, drawn(model, options.plans, options.seed))
    predictions = [predict(options, plan) for plan in order]
    rows, slower = judge(order, looks, measure_plans.measure(options, job, order, options.steps), predictions)
    text = table(options, rows, slower)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
