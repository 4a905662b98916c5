#!/usr/bin/env python3
"""Changes the cluster under simulated jobs over the published Aceso profiles and writes bench/results/simulate_drift.md.

Usage: bench/simulate_drift.py [--build build/release] [--peers ../shared/peers/aceso_v100] [--seeds 8] [--jobs 2]
                               [--out bench/results/simulate_drift.md]

Every run is `trimtab simulate` with a scenario of one change: after tuning, or in the middle of it. Whether the change was
noticed and rightly named, and what the plan that ran would have cost had nobody tuned again, beside what was adopted: both
against the best plan of the cluster as it is in the end. Standard library only.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import tempfile

from simulate_table import JOB, Laboratory

SETTINGS = [("gpt-350M", 1, 4), ("gpt-1_3B", 2, 4), ("resnet-500M", 1, 4), ("t5-770M", 1, 4)]
AT = 2500  # of 5,000 steps: jobs are tuned by then
IN_TUNING = 60
HALF_DEVICE = {"kind": "device", "device": 0, "share": 0.5}
# Name, the changes, the setting's least number of nodes, and how a right cause begins; none: there is nothing to name.
EVENTS = [
    ("no change", [], 1, None),
    ("a device at 50 %", [dict(HALF_DEVICE, at_step=AT)], 1, "device 0 of node n0"),
    ("the same while the job is tuned", [dict(HALF_DEVICE, at_step=IN_TUNING)], 1, "device 0 of node n0"),
    ("links inside of nodes at 25 %", [{"at_step": AT, "kind": "link", "level": "intra_node", "share": 0.25}], 1, "the links inside of node"),
    ("links between nodes at 25 %", [{"at_step": AT, "kind": "link", "level": "inter_node", "share": 0.25}], 2, "the link of node"),
    ("a device at 50 %, well again 1,500 steps later", [dict(HALF_DEVICE, at_step=1000), dict(HALF_DEVICE, at_step=AT, share=1.0)], 1, "device 0 of node n0"),
]  # fmt: skip

TRIALS = """[trials]
after = "continue"
max_trials = 12
overhead = 0.05
look_every_s = 60
deadline_s = 3600
"""


def scenario_of(changes):
    lines = []
    for change in changes:
        lines.append("[[drift]]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in change.items()]
    return "\n".join(lines) + "\n"


def simulate(laboratory, scenarios, setting, event, seed):
    words = ["--budget", "2000ev", "--best-budget", "12000ev", "--scenario", scenarios[event], "--job", scenarios["job"]]
    return laboratory.simulate(setting, seed, *words)


def row_of(name, changes, cause, runs):
    told = [run["changes"] for run in runs]
    noticed = sum(len(of_run) >= len(changes) for of_run in told)
    named = sum(any(cause and cause in one["what"] for one in of_run) for of_run in told)
    false = sum(max(0, len(of_run) - len(changes)) for of_run in told)
    after = [of_run[0]["noticed_step"] - changes[0]["at_step"] for of_run in told if changes and of_run]
    untuned = [one["untuned_regret"] for of_run in told for one in of_run[-1:] if "untuned_regret" in one]
    regret = [run["regret"] for run in runs]

    def percents(values):
        return f"{statistics.median(values):.1%}, {max(values):.1%}" if values else ""

    return " | ".join([
        f"| {name}", str(len(runs)), str(noticed) if changes else "", str(named) if cause else "", str(false),
        f"{statistics.median(after):.0f}, {max(after)}" if after else "", percents(untuned), percents(regret),
        f"{statistics.median(run['overhead_share'] for run in runs):.1%} |",
    ])  # fmt: skip


def table(arguments, results):
    lines = [
        "# Changes of the cluster in simulation", "",
        f"Made by `bench/simulate_drift.py --seeds {arguments.seeds}`: {', '.join(f'{m} on {n} x {d}' for m, n, d in SETTINGS)}, {arguments.seeds} seeds each;",
        "5,000 steps, wrong costs and noise as by default (docs/simulation.md), a look at the hardware each 60 s. Regret is against the best",
        "plan that longer searches with the true costs find on the cluster as it is in the end. Medians and largest. What costs a step less",
        "than 8 % is no drift, and nothing is done about it: so are these links, which plans of these jobs hardly wait for.", "",
        "| change | runs | noticed | rightly named | told beyond it | steps until noticed | regret of the plan that ran | regret of what was adopted | overhead |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    lines += [row_of(name, changes, cause, results[name]) for name, changes, _, cause in EVENTS]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="../shared/peers/aceso_v100")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="bench/results/simulate_drift.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        laboratory = Laboratory(arguments, directory)
        scenarios = {"job": pathlib.Path(directory) / "job.toml"}
        scenarios["job"].write_text(JOB.format(name="changing", steps=5000) + TRIALS)
        for name, changes, *_ in EVENTS:
            scenarios[name] = pathlib.Path(directory) / f"{len(scenarios)}.toml"
            scenarios[name].write_text(scenario_of(changes))
        pending = {}
        for name, _, nodes, _ in EVENTS:
            for setting in SETTINGS:
                for seed in range(1, arguments.seeds + 1) if setting[1] >= nodes else ():
                    pending[pool.submit(simulate, laboratory, scenarios, setting, name, seed)] = (name, setting, seed)
        results = {name: [] for name, *_ in EVENTS}
        for done in concurrent.futures.as_completed(pending):
            name, setting, seed = pending[done]
            print(name, setting, seed, file=sys.stderr)
            results[name].append(done.result())
    pathlib.Path(arguments.out).write_text(table(arguments, results))


if __name__ == "__main__":
    main()
