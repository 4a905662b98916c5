"""Fits the constants of estimates (estimates/include/estimates/constants.hpp) to published step times.

    cmake --build --preset release --target estimates_under
    python3 bench/scoreboard/fit_estimates.py --plans plans.csv [--write]

It sees the families of FAMILIES and no other: all other published plans judge the result (docs/accuracy.md). Each constant has
a prior: a value that is known of such hardware, and how far it may be from it. The fit lessens the sum of the errors'
pseudo-Huber losses (log of estimated over measured, beyond 8 % it grows linearly) and of the priors' squares, by
Levenberg and Marquardt's method from the priors. All families weigh the same, however many rows they have. But for two: mtnlg's
interleaving is not stated, and mcore_golden runs in a deterministic mode.

The spread, from which intervals follow, is what is left of a family that the fit did not see: each family once. A part
of it is the family's, and is gone where one of its steps was measured.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from published_rows import read_rows  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONSTANTS = os.path.join(ROOT, "estimates", "include", "estimates", "constants.hpp")
FAMILIES = {"sc21": 1, "mcore_h100": 1, "internevo": 1, "fms_fsdp": 1, "kwai": 1, "mtnlg": 0.5, "mcore_golden": 0.25}
BEND = 0.08
PRIOR_WEIGHT = 0.0015
DIFFERENCE = 1e-3  # of a logarithm

# name: value, deviation of its logarithm, least, most
PRIORS = {
    "ampere_product": (0.82, 0.08, 0.5, 0.95),
    "hopper_product": (0.68, 0.08, 0.4, 0.85),
    "blackwell_product": (0.60, 0.15, 0.3, 0.8),
    "product_depth": (128, 0.5, 16, 600),
    "ampere_attention": (0.60, 0.1, 0.3, 0.8),
    "hopper_attention": (0.36, 0.1, 0.25, 0.5),
    "newest_attention": (0.55, 0.12, 0.35, 0.75),
    "attention_backward": (0.8, 0.1, 0.5, 1),
    "attention_length": (256, 0.5, 50, 1000),
    "eager_moved": (1.5, 0.25, 1, 4),
    "fused_moved": (1.2, 0.25, 1, 3),
    "compiled_moved": (1.2, 0.25, 1, 3),
    "nvlink_share": (0.62, 0.1, 0.5, 0.95),
    "network_share": (0.8, 0.15, 0.4, 0.95),
    "infiniband_loss": (0.06, 0.5, 0.001, 0.4),
    "roce_loss": (0.1, 0.5, 0.001, 0.6),
    "collective_latency_s": (12e-6, 0.4, 3e-6, 60e-6),
    "network_latency_s": (8e-6, 0.4, 1e-6, 40e-6),
    "hidden_share": (0.85, 0.15, 0.3, 1),
    "hidden_tensor": (0.5, 0.3, 0.1, 0.95),
    "overlap_loss": (0.15, 0.5, 0.02, 0.6),
    "step_overhead_s": (0.008, 0.4, 0.002, 0.03),
    "straggling": (0.01, 0.5, 0.001, 0.04),
}


def question(row):
    """The row's, and of mcore_h100, which states neither microbatch nor interleaving, what its tables are usual with:
    four samples at once without stages, and else one, in as many chunks (at most six) as its layers allow, but in several: stages'
    communication is overlapped there (README.md), which Megatron does for interleaved schedules alone (arguments.py)."""
    asked = row.question
    if row.family == "mcore_h100":
        plan, layers = asked["plan"], asked["model"]["layers"]
        samples = plan["global_batch"] // plan["dp"]
        if plan["pp"] == 1:
            plan["microbatch"] = min(4, samples)
        elif samples % plan["pp"] == 0:
            several = [n for n in range(2, layers + 1) if layers % (plan["pp"] * n) == 0]
            plan["vpp"] = max([n for n in several if n <= 6] or several[:1])
    return asked


class Estimator:
    def __init__(self, program, questions, directory):
        path = os.path.join(directory, "questions.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in questions)
        self._process = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, constants):
        self._process.stdin.write(json.dumps(constants) + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._process.stdout.readline().split()]


def fitted(estimator, seen, rows):
    """By Levenberg and Marquardt's method, in logarithms of constants over their priors, with derivatives by differences. A
    constant at a bound stays there."""
    values, deviations, least, most = numpy.array(list(PRIORS.values())).T
    families = {row.family for row in seen}
    sizes = {family: sum(row.family == family for row in rows) for family in FAMILIES}
    shares = numpy.array([FAMILIES[row.family] / sizes[row.family] * (row.family in families) for row in rows])
    measured = numpy.log([row.step_s for row in rows])

    def errors_at(point):
        return numpy.log(estimator.seconds(dict(zip(PRIORS, values * numpy.exp(point))))) - measured

    def loss_of(point, errors):
        return shares @ (BEND * (numpy.sqrt(1 + (errors / BEND) ** 2) - 1)) + PRIOR_WEIGHT * ((point / deviations) ** 2).sum()

    point = numpy.zeros(len(values))
    errors = errors_at(point)
    loss, damping = loss_of(point, errors), 1e-3
    while damping < 1e6:
        slopes = numpy.array([(errors_at(point + step) - errors) / DIFFERENCE for step in DIFFERENCE * numpy.eye(len(values))]).T
        weights = shares / (BEND * numpy.sqrt(1 + (errors / BEND) ** 2))
        prior = 2 * PRIOR_WEIGHT / deviations**2
        curvature = slopes.T * weights @ slopes + numpy.diag(prior)
        slope = slopes.T @ (weights * errors) + prior * point
        before = loss
        while damping < 1e6:
            moved = point - numpy.linalg.solve(curvature + damping * numpy.diag(curvature.diagonal()), slope)
            moved = numpy.clip(moved, numpy.log(least / values), numpy.log(most / values))
            tried = errors_at(moved)
            if loss_of(moved, tried) < loss:
                point, errors, loss, damping = moved, tried, loss_of(moved, tried), damping / 5
                break
            damping *= 4
        if before - loss < 1e-7:
            break
    return dict(zip(PRIORS, values * numpy.exp(point)))


def unseen_spreads(estimator, rows):
    """Of families that a fit did not see: root mean square, and the same around each family's own mean."""
    squares, own = [], []
    for family in FAMILIES:
        constants = fitted(estimator, [row for row in rows if row.family != family], rows)
        logs = [math.log(seconds / row.step_s) for row, seconds in zip(rows, estimator.seconds(constants)) if row.family == family]
        mean = sum(logs) / len(logs)
        print(f"{family}, not seen: bias {100 * math.expm1(mean):+.1f} %")
        squares.append(sum(one * one for one in logs) / len(logs))
        own.append(sum((one - mean) ** 2 for one in logs) / (len(logs) - 1))
    return math.sqrt(sum(squares) / len(squares)), math.sqrt(sum(own) / len(own))


def write(constants):
    with open(CONSTANTS, encoding="utf-8") as file:
        text = file.read()
    for name, value in constants.items():
        text, found = re.subn(rf"double {name} = [^;]+;", f"double {name} = {value:.3g};", text)
        if found != 1:
            sys.exit(f"fit_estimates.py: {CONSTANTS}: expected one constant {name}, found {found}")
    with open(CONSTANTS, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--plans", required=True, metavar="FILE")
    words.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "estimates_under"))
    words.add_argument("--scratch", default="/tmp", metavar="DIR")
    words.add_argument("--write", action="store_true", help="into constants.hpp")
    options = words.parse_args()
    rows = [row for row in read_rows(options.plans) if row.family in FAMILIES and row.step_s and row.question]
    estimator = Estimator(options.program, [question(row) for row in rows], options.scratch)
    refused = [row.id for row, seconds in zip(rows, estimator.seconds({})) if seconds <= 0]
    if refused:
        sys.exit(f"fit_estimates.py: no estimate of {', '.join(refused)}")
    constants = fitted(estimator, rows, rows)
    errors = {}
    for row, seconds in zip(rows, estimator.seconds(constants)):
        errors.setdefault(row.family, []).append(math.log(seconds / row.step_s))
    print("| family | rows | mean error % | bias % |\n| --- | ---: | ---: | ---: |")
    for family, logs in errors.items():
        relative = [math.expm1(one) for one in logs]
        mean = 100 * sum(map(abs, relative)) / len(relative)
        print(f"| {family} | {len(relative)} | {mean:.1f} | {100 * sum(relative) / len(relative):+.1f} |")
    spread, own = unseen_spreads(estimator, rows)
    print(f"spread {spread:.3f}, of plans of one family {own:.3f}")
    for name, value in constants.items():
        print(f"{name} {value:.3g}")
    if options.write:
        write({**constants, "spread": spread, "own_spread": own})


if __name__ == "__main__":
    main()
