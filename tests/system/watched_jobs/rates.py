"""How often a card's first finding is wrong: real jobs with one planted fault each, recorded and folded.

    rates.py --runs 100 --seed 1 --trimtab build/release/bin/trimtab --out DIR
    rates.py --runs 20 --seed 1 --card-of-frames build/release/bin/card_of_frames --out DIR   # frames are kept, no daemons

Each run has its own model, number of ranks and way of planting, out of its seed. Prints a table, and each wrong run with
what makes it again. A run that tells too few steps for a finding (a machine that is too busy) counts by itself.
slow_link and healthy_links need root: their ranks are in network namespaces, behind links of which one may give half.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

import record

FAULTS = ("healthy", "slow_rank", "slow_data", "small_microbatch", "everything_recomputed")
LINKS = ("slow_link", "healthy_links")
EXPECTED = {"healthy_links": "healthy"}
MODELS = (("gpt", 128, 4, 64, 16), ("gpt", 64, 3, 32, 16), ("gpt", 192, 2, 48, 8), ("mlp", 512, 6, 0, 16),
          ("mlp", 1024, 3, 0, 32), ("conv", 32, 4, 0, 16), ("conv", 48, 3, 0, 8))
# Jobs that compute for at least a third of a step where no link is slow.
BEHIND_LINKS = ((1000, "mlp --width 384 --layers 4 --batch 128"), (400, "mlp --width 256 --layers 4 --batch 256"),
                (400, "gpt --width 96 --layers 3 --length 32 --batch 32"), (1000, "gpt --width 96 --layers 3 --length 32"))
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
JOB = [PYTHON, os.path.join(HERE, "job.py")]


def behind_links(fault, rng, seconds):
    ranks = rng.choice((3, 4))
    halved = rng.randrange(ranks) if fault == "slow_link" else -1
    mbit, model = rng.choice(BEHIND_LINKS)
    return [PYTHON, os.path.join(HERE, "in_namespaces.py"), "--ranks", str(ranks), "--halved", str(halved), "--mbit", str(mbit), "--",
            *JOB, "--seconds", str(seconds), "--model", *model.split()], ranks


def command_of(fault, seed, seconds):
    """The job's command line, its ranks, and the rank that the first finding is to name."""
    rng = random.Random(f"{fault} {seed}")
    if fault in LINKS:
        return *behind_links(fault, rng, seconds), None
    ranks = rng.choice((2, 2, 3, 4))
    model, width, layers, length, batch = rng.choice(MODELS)
    command = [PYTHON, os.path.join(HERE, "ranks.py"), str(ranks), "--", *JOB, "--fault", fault, "--seconds", str(seconds),
               "--seed", str(seed), "--model", model, "--width", str(width), "--layers", str(layers), "--batch", str(batch), "--how",
               rng.choice(("work", "sleep"))]
    if length:
        command += ["--length", str(length)]
    if rng.random() < 0.3:
        command.append("--no-sync")
    rank = None
    if fault == "slow_rank":
        rank = rng.randrange(ranks)
        command += ["--faulty-rank", str(rank)]
    return command, ranks, rank


def card_of_run(program, command, folder):
    """The card that `trimtab run -- COMMAND` leaves, with daemons of its own. None: the job failed."""
    with open(folder + ".log", "w", encoding="utf-8") as said:
        done = subprocess.run([program, "run", "--out", folder, "--", *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              env={**os.environ, "TRIMTAB_STATE": folder + ".state"}, timeout=120, check=False)
    shutil.rmtree(folder + ".state", ignore_errors=True)
    if done.returncode != 0:
        return None
    with open(os.path.join(folder, "card.json"), encoding="utf-8") as file:
        return json.load(file)


def card_of_frames(program, command, ranks, path, again):
    """The same of frames, which are recorded first where this is not `again`. None: the job failed, or did not run."""
    if not again:
        with open(path + ".log", "w", encoding="utf-8") as said:
            frames, code = record.record(command, output=said)
        if code != 0:
            return None
        record.write(frames, path)
    if not os.path.exists(path):
        return None
    return json.loads(subprocess.run([program, str(ranks), path], check=True, capture_output=True, text=True).stdout)


def outcome(card, fault, rank):
    """"right", "too few steps", or what came first instead."""
    if not card["findings"]:
        return "too few steps"
    first = card["findings"][0]
    named = first.get("rank") if fault == "slow_rank" else None
    if first["name"] == EXPECTED.get(fault, fault) and named == rank:
        return "right"
    return first["name"] + (f" {first['rank']}" if "rank" in first else "")


def without_fault(command, advice):
    """The same job, healthy. Its microbatches are as large as the advice says."""
    words = list(command)
    if advised := re.match(r"batch_size=(\d+), gradient_accumulation_steps", advice):
        words += ["--microbatch", advised[1]]
    for option, value in (("--fault", "healthy"), ("--halved", "-1")):
        if option in words:
            words[words.index(option) + 1] = value
    return words


class Rates:
    def __init__(self, options):
        self.options = options
        self.outcomes = collections.defaultdict(collections.Counter)
        self.gains = collections.defaultdict(list)  # of findings that were right: (told, low, high, seen in the healthy job)

    def card(self, command, ranks, name):
        path = os.path.join(self.options.out, name)
        if self.options.trimtab:
            return card_of_run(self.options.trimtab, command, path)
        return card_of_frames(self.options.card_of_frames, command, ranks, path + ".jsonl", self.options.again)

    def run(self, fault, seed):
        command, ranks, rank = command_of(fault, seed, self.options.seconds)
        card = self.card(command, ranks, f"{fault}-{seed}")
        if card is None:
            self.outcomes[fault]["the job failed"] += 1
            return
        found = outcome(card, fault, rank)
        self.outcomes[fault][found] += 1
        if found != "right":
            print(f"{fault} {seed}: {found}; load {os.getloadavg()[0]:.0f}; {' '.join(command[2:])}", flush=True)
            for one in card["findings"][:2]:
                print("   ", one["name"], round(one["gain"], 3), one["why"], flush=True)
        elif self.options.twins:
            self.compare(fault, seed, card)

    def compare(self, fault, seed, card):
        """What the finding says to gain, beside the same job without the fault."""
        command, ranks, _ = command_of(fault, seed, self.options.seconds)
        healthy = self.card(without_fault(command, card["findings"][0]["advice"]), ranks, f"{fault}-{seed}-healthy")
        if healthy is None:
            return
        seen = 1 - healthy["step_ms"]["median"] / card["step_ms"]["median"]
        first = card["findings"][0]
        self.gains[fault].append((first["gain"], first["low"], first["high"], seen))
        print(f"{fault} {seed}: gain {first['gain']:.3f} ({first['low']:.3f} to {first['high']:.3f}), seen {seen:.3f}", flush=True)

    def print(self):
        print("\n| planted | runs | right | too few steps | something else first |\n| --- | --- | --- | --- | --- |")
        for fault, counts in self.outcomes.items():
            other = {name: count for name, count in counts.items() if name not in ("right", "too few steps")}
            print(f"| {fault} | {sum(counts.values())} | {counts['right']} | {counts['too few steps']} | "
                  f"{', '.join(f'{count} {name}' for name, count in other.items()) or '0'} |")
        if not self.gains:
            return
        print("\n| planted | pairs | gain told, median | gain seen, median | seen within the interval |\n| --- | --- | --- | --- | --- |")
        for fault, pairs in self.gains.items():
            told, seen = (statistics.median(pair[place] for pair in pairs) for place in (0, 3))
            within = sum(low <= saw <= high for _, low, high, saw in pairs)
            print(f"| {fault} | {len(pairs)} | {told:.1%} | {seen:.1%} | {within} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--faults", nargs="*", default=FAULTS)
    parser.add_argument("--out", default="/tmp/trimtab-cards", help="where cards or frames go")
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--trimtab", help="the program: each job runs under it")
    program.add_argument("--card-of-frames", help="that program: frames are recorded and folded")
    parser.add_argument("--again", action="store_true", help="fold the frames that are there, and run nothing")
    parser.add_argument("--twins", action="store_true", help="run each job without its fault, too, and compare what the finding says to gain")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    rates = Rates(options)
    for seed in range(options.seed, options.seed + options.runs):
        for fault in options.faults:
            rates.run(fault, seed)
    rates.print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
