#!/usr/bin/env python3
"""Writes the plans of a peer's published search results as plan.json documents.

Usage: bench/peer_plans.py peer_results.json OUT_DIRECTORY

Each setting of the results becomes OUT/<model>-<size>.plan.json. Evaluate one with
    trimtab evaluate --model M.json --cluster M.cluster.json --costs costs.db --cost-model aceso --plan M.plan.json
Standard library only.
"""

import itertools
import json
import pathlib
import sys


def expanded(runs):
    """[[value, count], ...] as one value per operator."""
    return [value for value, count in runs for _ in range(count)]


def ranges(flags, offset):
    """The ranges of operators whose flag is set; the first operator has the number `offset`."""
    found, begin = [], offset
    for flag, group in itertools.groupby(flags):
        end = begin + sum(1 for _ in group)
        if flag:
            found.append([begin, end])
        begin = end
    return found


def segments(stage):
    """Consecutive operators of one (tp, dp) are a segment."""
    splits = list(zip(expanded(stage["tp"]), expanded(stage["dp"])))
    recompute, alternate = expanded(stage["recompute"]), expanded(stage["algo"])
    counts = {len(splits), len(recompute), len(alternate), stage["num_ops"]}
    if len(counts) != 1:
        raise ValueError(f"the stage at operator {stage['first_op']} has lists of different lengths: {sorted(counts)}")
    made, begin = [], 0
    for (tp, dp), group in itertools.groupby(splits):
        end = begin + sum(1 for _ in group)
        first = stage["first_op"] + begin
        segment = {"operators": [first, stage["first_op"] + end], "dp": dp, "tp": tp}
        for name, flags in (("recompute", recompute), ("alternate_dimension", alternate)):
            found = ranges(flags[begin:end], first)
            if found:
                segment[name] = found
        made.append(segment)
        begin = end
    return made


def plan_of(setting):
    best = setting["best_plan"]
    stages, device = [], 0
    for stage in best["stages"]:
        stages.append({"devices": list(range(device, device + stage["gpus"])), "segments": segments(stage)})
        device += stage["gpus"]
    return {
        "schema": "trimtab.plan/1",
        "model": f"{setting['model']}-{setting['size']}",
        "global_batch": best["global_batch_size"],
        "microbatch": best["micro_batch_size"],
        "schedule": {"kind": "1f1b"},
        "stages": stages,
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    settings = json.loads(pathlib.Path(sys.argv[1]).read_text())["settings"]
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for setting in settings:
        plan = plan_of(setting)
        (out / f"{plan['model']}.plan.json").write_text(json.dumps(plan) + "\n")
    print(f"wrote {len(settings)} plans to {out}")


if __name__ == "__main__":
    main()
