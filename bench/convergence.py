#!/usr/bin/env python3
"""Draws how the aceso strategy converges, into docs/: the questions of Figures 12 to 14 of Aceso's paper (EuroSys'24).

Usage: bench/convergence.py [--build build/release] [--peers ../shared/peers] [--setting gpt-13B] [--budget 100000ev]
                            [--initial-setting gpt-2_6B] [--out docs]

  convergence-heuristic-2.svg   heuristic 2 (order of resources) on and off
  convergence-max-hops.svg      MaxHops 1, 3, 7, 11
  convergence-initial.svg       three initial plans of four stages: balanced, uneven operators, uneven devices; of the
                                search for four stages alone, on --initial-setting (gpt-2_6B)

Each line is the best time that fits, over evaluations, from the traces of `trimtab search --trace`; evaluations rather
than seconds, so that a picture is the same on every machine. Standard library only.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLORS = ["#2563a8", "#c2571a", "#2e8540", "#7b4fa3"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 86, 40, 46, 56
INITIAL_STAGES = 4


class Program:
    def __init__(self, build, peers, directory, setting, budget, strategy_space):
        self.trimtab = pathlib.Path(build) / "bin" / "trimtab"
        self.directory, self.setting, self.budget = directory, setting, budget
        self.space = strategy_space
        self.run("db", "import", "--format", "aceso", peers, directory / "costs.db", "--documents", directory)
        self.model = json.loads((directory / f"{setting}.json").read_text())
        self.cluster = json.loads((directory / f"{setting}.cluster.json").read_text())

    def run(self, *arguments):
        done = subprocess.run([str(self.trimtab), *map(str, arguments)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"trimtab {' '.join(map(str, arguments))}: {done.stderr.strip()}")

    def curve(self, *flags, stages=None):
        """[(evaluations, best ms so far)], rising and falling; of the search for `stages` stages where that is given."""
        trace = self.directory / "trace.csv"
        self.run(
            *("search", "--model", self.directory / f"{self.setting}.json"),
            *("--cluster", self.directory / f"{self.setting}.cluster.json", "--costs", self.directory / "costs.db"),
            *("--cost-model", "aceso", "--space", self.space, "--strategy", "aceso", "--threads", 1),
            *("--budget", self.budget, "--trace", trace, *flags),
        )
        best, points = math.inf, []
        with trace.open() as rows:
            for row in sorted(csv.DictReader(rows), key=lambda row: int(row["evaluations"])):
                ms = float(row["after_ms"])
                if stages is not None and int(row["stages"]) != stages:
                    continue
                if math.isfinite(ms) and ms < best and float(row["after_excess_bytes"]) <= 0:
                    best = ms
                    points.append((max(1, int(row["evaluations"])), ms))
        if not points:
            sys.exit(f"{self.setting} {' '.join(map(str, flags))}: the search found no plan; give a larger --budget")
        return points

    def initial_plans(self):
        """Named plans to start from; all recompute everything, so that they fit."""
        operators, devices = len(self.model["operators"]), sum(node["devices"] for node in self.cluster["nodes"])
        stages = INITIAL_STAGES
        even = [operators * (i + 1) // stages for i in range(stages)]
        skewed = [operators * (i + 1) // (2 * stages) for i in range(stages - 1)] + [operators]
        same = [devices // stages] * stages
        rising = [devices // 8, devices // 8, devices // 4, devices // 2]
        shapes = (("balanced", even, same), ("uneven operators", skewed, same), ("uneven devices", even, rising))
        for name, ends, widths in shapes:
            yield name, self.plan(ends, widths)

    def plan(self, ends, widths):
        stages, begin, device = [], 0, 0
        for end, width in zip(ends, widths):
            segment = {"operators": [begin, end], "dp": 1, "tp": width, "recompute": [[begin, end]]}
            stages.append({"devices": list(range(device, device + width)), "segments": [segment]})
            begin, device = end, device + width
        smallest = self.model["microbatch_values"]["total"][0]
        return {
            "schema": "trimtab.plan/1",
            "model": self.model["name"],
            "global_batch": self.model["global_batch"],
            "microbatch": smallest,
            "schedule": {"kind": "1f1b"},
            "stages": stages,
        }


def nice_step(span):
    raw = span / 5
    power = 10 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)


def picture(title, curves, budget_end):
    """An SVG with a step line for each curve; the horizontal axis is logarithmic."""
    lowest = min(ms for _, points in curves for _, ms in points)
    highest = min(max(ms for _, points in curves for _, ms in points), 2.0 * lowest)
    span = max(highest - lowest, 0.01 * lowest)
    bottom_ms, top_ms = lowest - 0.05 * span, lowest + 1.05 * span
    first = min(points[0][0] for _, points in curves)
    x_low, x_high = math.log10(first), math.log10(max(budget_end, first * 10))

    def x(evaluations):
        return LEFT + (math.log10(evaluations) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y(ms):
        return TOP + (top_ms - min(ms, top_ms)) / (top_ms - bottom_ms) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" fill="#222">{title}</text>',
    ]
    step = nice_step(top_ms - bottom_ms)
    tick = math.ceil(bottom_ms / step) * step
    while tick <= top_ms:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#444">{tick / 1000:.2f} s</text>')
        tick += step
    for power in range(math.ceil(x_low), math.floor(x_high) + 1):
        place = x(10**power)
        parts.append(f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#444">{10**power:,}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle" fill="#444">plans evaluated</text>')
    for i, (name, points) in enumerate(curves):
        color = COLORS[i % len(COLORS)]
        path = f"M{x(points[0][0]):.1f},{y(points[0][1]):.1f}"
        for evaluations, ms in points[1:]:
            path += f"H{x(evaluations):.1f}V{y(ms):.1f}"
        path += f"H{WIDTH - RIGHT}"
        parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        top = TOP + 14 + 18 * i
        parts.append(f'<line x1="{WIDTH - 250}" x2="{WIDTH - 226}" y1="{top}" y2="{top}" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - 220}" y="{top + 4}" fill="#222">{name}: {points[-1][1] / 1000:.3f} s</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT.parent / "shared" / "peers")
    parser.add_argument("--setting", default="gpt-13B")
    parser.add_argument("--initial-setting", default="gpt-2_6B", help="at least 8 devices")
    parser.add_argument("--budget", default="100000ev")
    parser.add_argument("--space", default="aceso")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    arguments = parser.parse_args()
    if not arguments.budget.endswith("ev"):
        parser.error("--budget: give a number of evaluations such as 40000ev; seconds are not the same everywhere")
    peers = arguments.peers / "aceso_v100"
    if not peers.is_dir():
        sys.exit(f"{peers} is absent: name the published data with --peers")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trimtab-convergence-") as directory:
        directory = pathlib.Path(directory)
        program = Program(arguments.build, peers, directory, arguments.setting, arguments.budget, arguments.space)
        (directory / "initial").mkdir()
        of_initial = Program(arguments.build, peers, directory / "initial", arguments.initial_setting, arguments.budget,
                             arguments.space)
        starts = []
        for name, plan in of_initial.initial_plans():
            path = directory / f"{name.replace(' ', '-')}.plan.json"
            path.write_text(json.dumps(plan))
            starts.append((name, ("--start", path)))
        pictures = {
            "heuristic-2": ("heuristic 2", [("on", ()), ("off", ("--aceso-no-heuristic-2",))]),
            "max-hops": ("MaxHops", [(str(hops), ("--aceso-max-hops", hops)) for hops in (1, 3, 7, 11)]),
            "initial": ("initial plan", starts),
        }
        for file, (what, variants) in pictures.items():
            initial = file == "initial"
            searched, stages = (of_initial, INITIAL_STAGES) if initial else (program, None)
            curves = [(name, searched.curve(*flags, stages=stages)) for name, flags in variants]
            title = f"{searched.setting}: best predicted iteration by {what}"
            title += f", {stages} stages" if initial else ""
            path = arguments.out / f"convergence-{file}.svg"
            path.write_text(picture(title, curves, int(arguments.budget[:-2])))
            print(f"wrote {path}: " + ", ".join(f"{name} {points[-1][1]:.1f} ms" for name, points in curves))


if __name__ == "__main__":
    main()
