#!/usr/bin/env python3
"""How many trials estimates save: replays published cells of plans as a cluster on which plans are tried one by one.

Usage: bench/scoreboard/replayed_cells.py --plans FILE.csv --out bench/results/replayed_cells.md [--trimtab build/release/bin/trimtab]
                               [--seeds 20] [--family ultrascale]

A trial is one plan. A failed plan is a trial, too. Counted are the trials until a tried plan is within 2 % of the fastest of
the cell, and within 5 %, which is the noise of these measurements. Unflagged rows alone, cells of five or more plans that ran.

- estimates: in the order of expected speed, the predicted one times the chance to fit. Plans with a chance to fit below one
  half come after all others.
- random: any order, the mean of all seeds.
- grid: nested loops over tp, pp, microbatch and ZeRO. A seed draws the order of the loops and their directions.
- TPE: Optuna's sampler over the same knobs. A failed plan has speed 0. Knobs that no row has are told as speed 0 and are no
  trial, and a plan that was tried is not tried again. `pip install optuna` makes it available, else its column is empty.
"""

import argparse
import collections
import pathlib
import random
import statistics

from published_answers import estimates
from published_rows import read_rows
from published_scores import cells, does_not_fit, expected_rate, nodes, rate_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEAR = (0.02, 0.05)
KNOBS = ("tp", "pp", "microbatch", "sharded")
SUGGESTIONS = 400  # of TPE for one search. What is left then comes in any order.


class Cell:
    """Plans by their knobs, with the speed of each: 0 if it failed."""

    def __init__(self, pairs):
        self.plans = {}
        for row, answer in pairs:
            speed = rate_of(row) or 0.0
            if row.question is None or (row.outcome == "ran" and not speed):
                continue
            knobs = tuple(row.question["plan"][name] for name in KNOBS)
            rank = (does_not_fit(answer), -expected_rate(row, answer))
            if knobs not in self.plans or speed < self.plans[knobs][0]:  # of a plan that was run twice the slower
                self.plans[knobs] = (speed, rank)
        self.best = max(speed for speed, _ in self.plans.values())

    def trials(self, order):
        """Of an order of all plans, for each nearness."""
        found = []
        for near in NEAR:
            enough = (1 - near) * self.best
            found.append(next(count for count, knobs in enumerate(order, 1) if self.plans[knobs][0] >= enough))
        return found

    def by_estimate(self):
        return sorted(self.plans, key=lambda knobs: (self.plans[knobs][1], self.plans[knobs][0]))

    def at_random(self, seed):
        order = sorted(self.plans)
        random.Random(seed).shuffle(order)
        return order

    def by_grid(self, seed):
        source = random.Random(seed)
        loops = source.sample(range(len(KNOBS)), len(KNOBS))
        values = [sorted({knobs[index] for knobs in self.plans}) for index in range(len(KNOBS))]
        for one in values:
            if source.random() < 0.5:
                one.reverse()
        return sorted(self.plans, key=lambda knobs: [values[index].index(knobs[index]) for index in loops])

    def by_tpe(self, seed, optuna):
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        values = [sorted({knobs[index] for knobs in self.plans}) for index in range(len(KNOBS))]
        order, known = [], set()
        for _ in range(SUGGESTIONS):
            trial = study.ask()
            knobs = tuple(
                values[index][trial.suggest_int(name, 0, len(values[index]) - 1)] for index, name in enumerate(KNOBS)
            )
            speed = self.plans.get(knobs, (0.0,))[0]
            study.tell(trial, speed)
            if knobs in self.plans and knobs not in known:
                known.add(knobs)
                order.append(knobs)
            if speed >= (1 - min(NEAR)) * self.best:
                break
        return order + [knobs for knobs in self.at_random(seed) if knobs not in known]


def replay(cell, seeds, optuna):
    """Way -> trials for each nearness, means over the seeds."""
    found = {"estimates": cell.trials(cell.by_estimate())}
    ways = {"random": cell.at_random, "grid": cell.by_grid}
    if optuna:
        ways["TPE"] = lambda seed: cell.by_tpe(seed, optuna)
    for name, order in ways.items():
        counts = [cell.trials(order(seed)) for seed in range(seeds)]
        found[name] = [statistics.fmean(count[index] for count in counts) for index in range(len(NEAR))]
    return found


def sampler_library():
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def markdown(results, given, optuna):
    ways = ["estimates", "random", "grid"] + (["TPE"] if optuna else [])
    lines = [
        "# Trials until a cell's best plan",
        "",
        "    " + f"bench/scoreboard/replayed_cells.py --plans {pathlib.Path(given.plans).name} --out bench/results/replayed_cells.md --seeds {given.seeds}",
        "",
        f"Published cells of `{given.family}`, replayed as a cluster. A trial is one plan. Failed plans are trials. Means over {given.seeds} seeds"
        + (f", TPE of Optuna {optuna.__version__}." if optuna else "."),
    ]
    for index, near in enumerate(NEAR):
        lines += ["", f"## Within {100 * near:.0f} %", "", "| cell | plans | of them failed | " + " | ".join(ways) + " |", "| --- |" + " ---: |" * (2 + len(ways))]
        for name, cell, found in results:
            failed = sum(speed == 0 for speed, _ in cell.plans.values())
            counts = " | ".join(f"{found[way][index]:.0f}" if way == "estimates" else f"{found[way][index]:.1f}" for way in ways)
            lines.append(f"| {name} | {len(cell.plans)} | {failed} | {counts} |")
        for words, subset in (("up to 32 nodes", [one for one in results if not one[0].endswith("-64n")]), ("all", results)):
            for kind, middle in (("median", statistics.median), ("mean", statistics.fmean)):
                if subset:
                    counts = " | ".join(f"{middle([found[way][index] for _, _, found in subset]):.1f}" for way in ways)
                    lines.append(f"| {kind}, {words} | | | {counts} |")
    return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--plans", required=True)
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--trimtab", default=str(ROOT / "build/release/bin/trimtab"))
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--family", default="ultrascale")
    given = arguments.parse_args()
    rows = [row for row in read_rows(given.plans) if row.family == given.family and row.clean]
    pairs = list(zip(rows, estimates(rows, [given.trimtab, "plan", "estimate"])))
    named = collections.OrderedDict()
    for name, members in sorted(cells(pairs).items(), key=lambda item: (item[0][1], nodes(item[1][0][0]))):
        named[name[0].removeprefix(given.family + "-")] = Cell(members)
    optuna = sampler_library()
    results = [(name, cell, replay(cell, given.seeds, optuna)) for name, cell in named.items()]
    pathlib.Path(given.out).write_text(markdown(results, given, optuna))


if __name__ == "__main__":
    main()
