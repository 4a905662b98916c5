#!/usr/bin/env python3
"""Replays searches over the plans of a job that were measured one by one: device-seconds until a search holds one of the best.

    bench/replay_plans.py bench/results/plans.csv --report docs/report.json [--job examples/gpt-cpu/job.toml] [--seeds 10000]
                          [--out bench/results/replay_plans.md]

The CSV is measure_plans.py's, which says nothing of predictions, of changes of plan and of sharded plans. So the tuner's order is
that of the report's trials, a change of plan and a plan that does not fit cost what they did in that report, and the grid has no
levels of sharding. Every search tries plans by the same means; what is assumed is said in the head of the table. Standard library
only.
"""

import argparse
import csv
import dataclasses
import json
import pathlib
import random
import re
import statistics
import sys
import textwrap
import tomllib

import measure_plans

ROOT = measure_plans.ROOT
DEVICES = 2
FITS = ""
OVER_MEMORY = "over the memory limit"
STAGE = re.compile(r"(\d+)-(\d+)x(\d+)(/r.*)?")


@dataclasses.dataclass(frozen=True)
class Row:
    """One measured plan."""

    text: str
    first_ms: float
    final_ms: float | None
    role: str
    reason: str

    @property
    def fits(self):
        return self.reason == FITS

    @property
    def microbatch(self):
        return int(self.text.split()[0].removeprefix("mb"))

    @property
    def stages(self):
        return [STAGE.fullmatch(word).groups() for word in self.text.split()[1:]]

    @property
    def is_replicas(self):
        return len(self.stages) == 1

    @property
    def recompute(self):
        """Of each stage, as measure_plans.describe() writes it; "" = nothing."""
        return [again or "" for *_, again in self.stages]

    def ms(self, is_first_pass):
        return self.first_ms if is_first_pass or self.final_ms is None else self.final_ms


def read_rows(path):
    with open(path, newline="") as file:
        return [
            Row(one["plan"], float(one["first_ms"]), float(one["final_ms"]) if one["final_ms"] else None, one["role"],
                one["reason"])
            for one in csv.DictReader(file) if one["first_ms"]
        ]  # fmt: skip


def one_by_one(rows):
    """The order in which measure_plans.py goes through the space."""
    return sorted(rows, key=lambda row: (row.microbatch, row.is_replicas, int(row.stages[0][1]), row.recompute))


def grid(rows, recompute):
    """Replicas over all devices with one setting of recompute, counts of samples upwards."""
    return sorted((row for row in rows if row.is_replicas and row.recompute == [recompute]), key=lambda row: row.microbatch)


def fast(listed):
    """The least, the most that fits and the middle one between, as unmodelled_planner.cpp has it."""
    fitting = [row for row in listed if row.fits]
    return [fitting[0], fitting[-1], fitting[len(fitting) // 2]]


@dataclasses.dataclass
class Price:
    """Of a trial, in seconds of the job."""

    steps: int
    change_s: float
    failure_s: float

    def of(self, row, is_first_pass):
        if row is None or not row.fits:
            return self.failure_s
        return 2 * self.change_s + self.steps * row.ms(is_first_pass) / 1000


@dataclasses.dataclass
class Goal:
    title: str
    is_first_pass: bool
    slack: float

    def best(self, rows):
        return min((row for row in rows if row.fits), key=lambda row: row.ms(self.is_first_pass))

    def reached_by(self, rows):
        """The plans that reach it."""
        most = (1 + self.slack) * self.best(rows).ms(self.is_first_pass)
        return {row.text for row in rows if row.fits and row.ms(self.is_first_pass) <= most}


def replay(order, goal, wanted, price):
    """(trials, of those failed, device-seconds) up to the first plan that reaches the goal; None = the order ends before."""
    failed, seconds = 0, 0.0
    for trials, row in enumerate(order, 1):
        failed += row is None or not row.fits
        seconds += price.of(row, goal.is_first_pass)
        if row is not None and row.text in wanted:
            return trials, failed, DEVICES * seconds
    return None


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cells_of(name, orders, goal, rows, price, before_s):
    wanted = goal.reached_by(rows)
    runs = [replay(order, goal, wanted, price) for order in orders]
    hit = [run for run in runs if run]
    if not hit:
        spent = DEVICES * statistics.median(sum(price.of(row, goal.is_first_pass) for row in order) for order in orders)
        tried = [row for row in orders[0] if row is not None and row.fits]
        best = goal.best(rows).ms(goal.is_first_pass)
        off = min(row.ms(goal.is_first_pass) for row in tried) / best - 1
        return [name, len(orders[0]), f"never: {100 * off:.0f} % off at the end", "–", "–", f"({spent:.0f} in vain)", "–",
                f"{before_s:.0f}", "–", "–"]  # fmt: skip
    trials, failed, seconds = ([run[i] for run in hit] for i in range(3))
    return [name, len(orders[0]), f"{100 * len(hit) / len(runs):.0f} %",
            f"{statistics.median(trials):.0f} ({percentile(trials, 0.9):.0f})",
            f"{statistics.median(failed):.0f} ({percentile(failed, 0.9):.0f})",
            f"{statistics.median(seconds):.0f}", f"{percentile(seconds, 0.9):.0f}", f"{before_s:.0f}",
            f"{statistics.median(seconds) + before_s:.0f}", f"{percentile(seconds, 0.9) + before_s:.0f}"]  # fmt: skip


COLUMNS = [
    "", "plans in its list", "reached", "trials until then", "of those without room", "device-seconds of trials", "90th percentile",
    "of measuring costs before", "together", "90th percentile",
]  # fmt: skip


def table(searches, goal, rows, price):
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    for name, orders, before_s in searches:
        lines.append("| " + " | ".join(map(str, cells_of(name, orders, goal, rows, price, before_s))) + " |")
    best = goal.best(rows)
    count = len(goal.reached_by(rows))
    return (f"\n## {goal.title}\n\nThe best is `{best.text}` with {best.ms(goal.is_first_pass):.1f} ms; within the goal: {count}."
            "\n\n" + "\n".join(lines) + "\n")  # fmt: skip


def tuner_order(report, rows):
    """The report's trials in the CSV's rows; None where a plan failed that the CSV has not got."""
    by_text = {row.text: row for row in rows}
    order, absent = [], []
    for trial in report["trials"]:
        text = measure_plans.describe(trial["plan"])
        if text not in by_text:
            absent.append(text)
            if trial["state"] != "failed":
                sys.exit(f"{text} was measured in a trial of the report and is not in the CSV: its time is not known")
        order.append(by_text.get(text))
    return order, absent


def price_from(report, settings):
    changes = [trial["cost"]["switch_ms"] for trial in report["trials"] if trial["state"] != "failed"]
    failures = [trial["cost"]["overhead_ms"] for trial in report["trials"] if trial["reason"] == "out_of_memory"]
    failures = failures or changes  # of a report in which no trial ran out of memory: a failure as a change and no step
    steps = settings["warmup_steps"] + settings["blocks"] * settings["measure_steps"]
    return Price(steps, statistics.median(changes) / 1000, statistics.median(failures) / 1000)


def moved_most(rows):
    both = [row for row in rows if row.final_ms]
    return max(both, key=lambda row: abs(row.final_ms / row.first_ms - 1)), [row.final_ms / row.first_ms - 1 for row in both]


def assumptions(options, rows, everything, price, report, settings, absent):
    most, moves = moved_most(rows)
    yield f"""A plan takes what the CSV says: the median of its last 15 steps where it was among the fastest and measured again,
        else its one step of the first pass. That step is a poor measurement: the {len(moves)} plans that have both differ by a
        median of {100 * statistics.median(map(abs, moves)):.0f} %, `{most.text}` by {100 * abs(most.final_ms / most.first_ms - 1):.0f} %
        ({most.first_ms:.1f} and {most.final_ms:.1f} ms). So 2 % is finer than these measurements tell apart, and the goal is judged
        in three ways."""
    for row in everything:
        if row.role == "adopted" and row not in rows:
            yield f"""Left out: `{row.text}`, {row.ms(False):.1f} ms, which an earlier tune had adopted. It recomputes a part of a
                stage, which no plan of the space here does."""
    yield """A search holds the fastest plan of its trials, without noise of the search's own. How it knows that it has arrived is not
        asked: every search could go on, and none is charged for that."""
    yield f"""Every search tries plans by the same means, live changes of plan in one job. A trial is {price.steps} steps of its plan
        ({settings["warmup_steps"]} of warm-up and {settings["blocks"]} blocks of {settings["measure_steps"]}) and a change there and
        back, of {price.change_s:.2f} s each, the median of [docs/report.json](../../docs/report.json). A plan without room costs
        {price.failure_s:.2f} s, the median there. All of it counts as spent, although a job trains meanwhile. Who launches the job
        anew for each trial pays more than that."""
    yield f"Device-seconds are those of {DEVICES} devices together. Medians; the 90th percentile in parentheses or in its own column."
    yield f"""Random order: all {len(rows)} plans, those without room among them, {options.seeds} seeds. Nothing else here is random."""
    yield """One by one: the order in which `bench/measure_plans.py` goes through them. The line below each table is what all of them
        cost: to know the best, and not only to hold it."""
    yield """Grid, as `bench/simulate_table.py` has it from DeepSpeed's autotuner: replicas over all devices, counts of samples
        upwards, with the recompute of the plan that the job begins with. Levels of sharding are its other dimension: **the CSV has no
        sharded plan**, so what is replayed is the grid's first level alone. This job begins with everything recomputed; the grid
        with nothing recomputed is told what a grid does not look for. Fast mode: the least, the most that fits and one between;
        which ones fit it is told for nothing."""
    not_there = "".join(f" `{text}`, which failed there, is not in the CSV and costs as a plan without room." for text in absent)
    yield f"""The tuner: **the CSV has no predictions**, so its order is that of the trials of docs/report.json, one later run of the
        same job, in which it chose each trial after the one before.{not_there} A trial has the same price as the others'; in that
        run all {len(report["trials"])} trials and the last comparison took {report["overhead"]["ms"] / 1000:.1f} s beyond training.
        Measuring the costs that the model needs ({report["profiled"]["seconds"]:.0f} s, once for a kind of devices) has a column of
        its own; searches ran beside training and are not charged."""


def wrapped(text, indent=""):
    return textwrap.fill(" ".join(text.split()), 138, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def head(options, rows, everything, price, report, settings, absent):
    over = sum(row.reason == OVER_MEMORY for row in rows)
    command = " ".join(["bench/replay_plans.py", *sys.argv[1:]])
    made_of = f"""Of {len(rows)} plans of the main job, each measured on the running job ([plans.csv](plans.csv), by
        `bench/measure_plans.py`), of which {over} need more memory than the job has. Nothing is simulated but the order. What is
        assumed:"""
    text = f"# Searches replayed over the measured plans of the main job\n\nMade by `{command}`.\n\n{wrapped(made_of)}\n\n"
    for one in assumptions(options, rows, everything, price, report, settings, absent):
        text += wrapped("- " + one, "  ") + "\n"
    return text


def searches_of(rows, report, seeds):
    def shuffled(seed):
        order = list(rows)
        random.Random(seed).shuffle(order)
        return order

    recomputed, plain = grid(rows, "/r"), grid(rows, "")
    tuner, absent = tuner_order(report, rows)
    return [
        ("Trimtab's tuner", [tuner], DEVICES * report["profiled"]["seconds"]),
        ("random order", [shuffled(seed) for seed in range(1, seeds + 1)], 0),
        ("one by one", [one_by_one(rows)], 0),
        ("grid, everything recomputed as the job has it", [recomputed], 0),
        ("the same, fast mode", [fast(recomputed)], 0),
        ("grid, nothing recomputed", [plain], 0),
        ("the same, fast mode", [fast(plain)], 0),
    ], absent  # fmt: skip


GOALS = [
    Goal("Within 2 % of the best", False, 0.02),
    Goal("Within 5 % of the best", False, 0.05),
    Goal("Within 2 % of the best of the first pass, one step of each plan", True, 0.02),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, required=True)
    parser.add_argument("--job", type=pathlib.Path, default=ROOT / "examples/gpt-cpu/job.toml")
    parser.add_argument("--seeds", type=int, default=10000)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    everything = read_rows(options.plans)
    # The initial plan and the one that a tune had adopted were measured beside the space; the initial one is in it, too.
    rows = [row for row in everything if not row.role]
    report = json.loads(options.report.read_text())
    settings = tomllib.loads(options.job.read_text())["trials"]
    price = price_from(report, settings)
    searches, absent = searches_of(rows, report, options.seeds)
    text = head(options, rows, everything, price, report, settings, absent)
    for goal in GOALS:
        text += table(searches, goal, rows, price)
        whole = DEVICES * sum(price.of(row, goal.is_first_pass) for row in rows)
        text += f"\nAll of them: {len(rows)} trials, {whole:.0f} device-seconds.\n"
    if options.out:
        options.out.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
