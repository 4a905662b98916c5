#!/usr/bin/env python3
"""Searches every setting of Aceso's published results and writes bench/results/aceso_peers.md.

Usage: bench/aceso_peers.py [--build build/release] [--peers ../shared/peers] [--short 0.5s] [--long 60s]
                            [--only MODEL-SIZE] [--out bench/results/aceso_peers.md]

One search per column, through the program, one thread, in the peer's own cost model and space; the last two columns leave
that space: recompute chosen freely, and tensor and data parallelism mixed inside a stage (ResNet mixes them in the peer's
own space; T5's layout changes are not priced by it). Four searches of --long and two of --short for each setting, at most.
Standard library only.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Program:
    def __init__(self, build, peers, directory):
        self.trimtab = pathlib.Path(build) / "bin" / "trimtab"
        self.directory = pathlib.Path(directory)
        self.costs = self.directory / "costs.db"
        command = ["db", "import", "--format", "aceso", peers, self.costs, "--documents", self.directory]
        self.import_seconds = self.run(*command)[1]

    def run(self, *arguments):
        begin = time.monotonic()
        done = subprocess.run([str(self.trimtab), *map(str, arguments)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"trimtab {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout, time.monotonic() - begin

    def search(self, name, strategy, space, budget):
        """The best plan's time and the search's own account of itself."""
        out, _ = self.run(
            *("search", "--model", self.directory / f"{name}.json"),
            *("--cluster", self.directory / f"{name}.cluster.json", "--costs", self.costs),
            *("--cost-model", "aceso", "--space", space, "--strategy", strategy, "--threads", 1),
            *("--budget", budget, "--plans", 1, "--json"),
        )
        answer = json.loads(out)
        plans = answer["plans"]
        return dict(answer["search"], ms=plans[0]["prediction"]["iteration_ms"] if plans else None)


def attempt(search, *arguments):
    """A column that cannot be filled says why, beside the table."""
    try:
        return search(*arguments), None
    except RuntimeError as refusal:
        return None, str(refusal)


def settings(peers):
    best = {}
    for row in csv.DictReader((peers / "optimum.csv").open()):
        best[f"{row['model']}-{row['size']}"] = row
    for setting in json.loads((peers / "peer_results.json").read_text())["settings"]:
        name = f"{setting['model']}-{setting['size']}"
        yield name, setting, best.get(name)


def ms(value):
    return "–" if value is None else f"{value:.3f}"


def gap(value, reference):
    return "–" if value is None or not reference else f"{100 * (value / reference - 1):+.3f} %"


def peer_seconds(setting):
    found = setting.get("best") or {}
    return found.get("found_after_cpu_s")


COLUMNS = [
    "setting", "GPUs", "peer ms", "peer CPU s", "optimum ms",
    "unified short ms", "to optimum", "s", "evaluations",
    "unified long ms", "to optimum", "bound ms", "proven", "s", "evaluations",
    "aceso ms", "to peer", "s", "evaluations",
    "free recompute ms", "further gain", "bound ms", "gap to bound", "s",
    "mixed tp/dp ms", "further gain", "bound ms", "gap to bound", "s",
]  # fmt: skip


def row_of(program, name, setting, optimum, arguments):
    peer = setting["best_plan"]["predicted"]["iteration_ms"]
    reference = float(optimum["optimum_ms"]) if optimum else None
    notes = []

    def search(strategy, space, budget):
        found, refusal = attempt(program.search, name, strategy, space, budget)
        if refusal:
            notes.append(f"{name}, {strategy} in {space}: {refusal}")
        return found or {"ms": None, "seconds": None, "evaluations": None, "lower_bound_ms": None, "proven": False}

    short = search("unified", "aceso", arguments.short)
    long = search("unified", "aceso", arguments.long)
    aceso = search("aceso", "aceso", arguments.short)
    free = search("unified", "aceso-recompute", arguments.long)
    mixed = search("unified", "aceso-mixed", arguments.long) if setting["model"] != "t5" else {"ms": None}
    seconds = lambda found: "–" if found.get("seconds") is None else f"{found['seconds']:.2f}"
    count = lambda found: "–" if found.get("evaluations") is None else f"{found['evaluations']}"
    kind = optimum["kind"] if optimum else ""

    def beyond(found):
        """What a wider space brings over the long search in the peer's own, and how far from its bound that is."""
        bound = found.get("lower_bound_ms")
        return [ms(found["ms"]), gap(found["ms"], long["ms"]), ms(bound), gap(found["ms"], bound), seconds(found)]

    cells = [
        name, setting["gpus"], ms(peer), peer_seconds(setting) or "–",
        ms(reference) + (" (found)" if kind == "found" else ""),
        ms(short["ms"]), gap(short["ms"], reference), seconds(short), count(short),
        ms(long["ms"]), gap(long["ms"], reference), ms(long.get("lower_bound_ms")), "yes" if long["proven"] else "no",
        seconds(long), count(long),
        ms(aceso["ms"]), gap(aceso["ms"], peer), seconds(aceso), count(aceso),
        *beyond(free), *beyond(mixed),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |", notes


def table(arguments, import_seconds, rows, notes):
    text = f"""# Aceso's published settings, searched here

Made by `{' '.join(['bench/aceso_peers.py', *sys.argv[1:]])}`: one thread, budgets {arguments.short} (short, and `aceso`; reading the documents counts)
and {arguments.long} (long, free recompute, mixed), `--cost-model aceso`, spaces `aceso`, `aceso-recompute` and `aceso-mixed`.
Times are predicted iteration times in ms. "peer" is the best plan that the published search found here and the CPU seconds
after which it had it ("–": the published plan of one GPU, not searched); "optimum" is of `optimum.csv` ("found": the best
known, not proven). Import of the whole profile: {import_seconds:.1f} s.

| {' | '.join(COLUMNS)} |
|{' --- |' * len(COLUMNS)}
""" + "".join(row + "\n" for row in rows)
    if notes:
        text += "\nNot filled in:\n\n" + "".join(f"- {note}\n" for note in notes)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT.parent / "shared" / "peers")
    parser.add_argument("--short", default="0.5s")
    parser.add_argument("--long", default="60s")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "results" / "aceso_peers.md")
    arguments = parser.parse_args()
    peers = arguments.peers / "aceso_v100"
    if not peers.is_dir():
        sys.exit(f"{peers} is absent: name the published data with --peers")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trimtab-peers-") as directory:
        program = Program(arguments.build, peers, directory)
        rows, notes = [], []
        for name, setting, optimum in settings(peers):
            if arguments.only and name not in arguments.only:
                continue
            row, refused = row_of(program, name, setting, optimum, arguments)
            rows.append(row)
            notes += refused
            print(row, flush=True)
            # After every setting, so that a run that is cut short leaves the table of what it had.
            arguments.out.write_text(table(arguments, program.import_seconds, rows, notes))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
