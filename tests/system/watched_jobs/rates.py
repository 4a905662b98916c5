"""How often a card's first finding is wrong: real jobs with one planted fault each, recorded and folded.

    rates.py --runs 100 --seed 1 --card-of-frames build/release/bin/card_of_frames --frames DIR

Each run has its own model, number of ranks and way of planting, out of its seed. Prints a table, and each wrong run with
what makes it again. A run that tells too few steps for a finding (a machine that is too busy) counts by itself.
slow_link and healthy_links need root: their ranks are in network namespaces, behind links of 400 Mbit/s, of which one
may give half.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys

import record

FAULTS = ("healthy", "slow_rank", "slow_data", "small_microbatch", "everything_recomputed")
LINKS = ("slow_link", "healthy_links")
EXPECTED = {"healthy_links": "healthy"}
MODELS = (("gpt", 128, 4, 64, 16), ("gpt", 64, 3, 32, 16), ("gpt", 192, 2, 48, 8), ("mlp", 512, 6, 0, 16),
          ("mlp", 1024, 3, 0, 32), ("conv", 32, 4, 0, 16), ("conv", 48, 3, 0, 8))
HERE = os.path.dirname(os.path.abspath(__file__))
JOB = os.path.join(HERE, "job.py")


def behind_links(fault, rng, seconds):
    ranks = rng.choice((3, 4))
    halved = rng.randrange(ranks) if fault == "slow_link" else -1
    model = rng.choice((["mlp", "--width", "384", "--layers", "4"], ["gpt", "--width", "96", "--layers", "3", "--length", "32"]))
    return ["/usr/bin/python3", os.path.join(HERE, "in_namespaces.py"), "--ranks", str(ranks), "--halved", str(halved), "--",
            "/usr/bin/python3", JOB, "--seconds", str(seconds), "--model", *model], ranks


def command_of(fault, seed, seconds):
    """The job's command line, its ranks, and the rank that the first finding is to name."""
    rng = random.Random(f"{fault} {seed}")
    if fault in LINKS:
        return *behind_links(fault, rng, seconds), None
    ranks = rng.choice((2, 2, 3, 4))
    model, width, layers, length, batch = rng.choice(MODELS)
    command = ["/usr/bin/python3", JOB, "--fault", fault, "--seconds", str(seconds), "--seed", str(seed), "--ranks", str(ranks),
               "--model", model, "--width", str(width), "--layers", str(layers), "--batch", str(batch), "--how",
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


def card_of(program, ranks, path):
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--faults", nargs="*", default=FAULTS)
    parser.add_argument("--frames", default="/tmp/trimtab-card-frames")
    parser.add_argument("--card-of-frames", required=True)
    parser.add_argument("--again", action="store_true", help="fold the frames that are there, and run nothing")
    options = parser.parse_args()
    os.makedirs(options.frames, exist_ok=True)
    results = collections.defaultdict(collections.Counter)
    for seed in range(options.seed, options.seed + options.runs):
        for fault in options.faults:
            command, ranks, rank = command_of(fault, seed, options.seconds)
            path = os.path.join(options.frames, f"{fault}-{seed}.jsonl")
            if not options.again:
                with open(path + ".log", "w", encoding="utf-8") as said:
                    frames, code = record.record(command, output=said)
                if code != 0:
                    results[fault]["the job failed"] += 1
                    continue
                record.write(frames, path)
            elif not os.path.exists(path):
                continue
            card = card_of(options.card_of_frames, ranks, path)
            found = outcome(card, fault, rank)
            results[fault][found] += 1
            if found != "right":
                print(f"{fault} {seed}: {found}; load {os.getloadavg()[0]:.0f}; {' '.join(command[2:])}", flush=True)
                for one in card["findings"][:2]:
                    print("   ", one["name"], round(one["gain"], 3), one["why"], flush=True)
    print("\n| planted | runs | right | too few steps | something else first |\n| --- | --- | --- | --- | --- |")
    for fault, counts in results.items():
        other = {name: count for name, count in counts.items() if name not in ("right", "too few steps")}
        print(f"| {fault} | {sum(counts.values())} | {counts['right']} | {counts['too few steps']} | "
              f"{', '.join(f'{count} {name}' for name, count in other.items()) or '0'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
