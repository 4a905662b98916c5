#!/usr/bin/env python3
"""Changes the cluster under simulated jobs over the published Aceso profiles and writes bench/results/simulate_drift.md.

Usage: bench/simulate_drift.py [--build build/release] [--peers ../shared/peers/aceso_v100] [--seeds 8] [--jobs 2] [--only NAME]
                               [--out bench/results/simulate_drift.md]

Every run is `trimtab simulate` with a scenario of one change, or of one and its end: after tuning, or in the middle of it; of a
device, of links, or of the nodes that there are. Whether the change was noticed and rightly named, and what the plan that ran would have cost had nobody tuned again, beside what was adopted: both
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
NODES = [("gpt-1_3B", 2, 4), ("gpt-350M", 3, 2)]
# Steps that links bound: nodes of one device, so that all communication is between nodes, of a fifth of the bandwidth.
BOUND = [("gpt-350M", 4, 1)]
BOUND_BANDWIDTH = 1.25e9
AT = 2500  # of 5,000 steps: jobs are tuned by then
IN_TUNING = 60
HALF_DEVICE = {"kind": "device", "device": 0, "share": 0.5}
INSIDE = {"kind": "link", "level": "intra_node", "share": 0.25}
BETWEEN = {"kind": "link", "level": "inter_node", "share": 0.25}
ONE_LINK = dict(BETWEEN, node="n0", peer="n1")
LATE = {"kind": "link", "level": "inter_node", "share": 1.0, "latency_us": 20000.0}
GONE = {"kind": "lost", "node": "n1", "seconds": 1e9}
# Name, the changes, settings, how a right cause begins (none: there is nothing to name), and how often the job is begun
# anew on other nodes.
EVENTS = [
    ("no change", [], SETTINGS + NODES[1:] + BOUND, None, 0),
    ("a device at 50 %", [dict(HALF_DEVICE, at_step=AT)], SETTINGS, "device 0 of node n0", 0),
    ("the same while the job is tuned", [dict(HALF_DEVICE, at_step=IN_TUNING)], SETTINGS, "device 0 of node n0", 0),
    ("a device at 50 %, well again 1,500 steps later", [dict(HALF_DEVICE, at_step=1000), dict(HALF_DEVICE, at_step=AT, share=1.0)], SETTINGS, "device 0 of node n0", 0),
    ("links inside of nodes at 25 %", [dict(INSIDE, at_step=AT)], SETTINGS, "the links inside of node", 0),
    ("links between nodes at 25 %", [dict(BETWEEN, at_step=AT)], NODES, "the link of node", 0),
    ("the same, of jobs that links bound", [dict(BETWEEN, at_step=AT)], BOUND, "the link of node", 0),
    ("one link of a job that links bound, at 25 %", [dict(ONE_LINK, at_step=AT)], BOUND, "the link of node n0 to n1", 0),
    ("the same, well again 1,500 steps later", [dict(ONE_LINK, at_step=1000), dict(ONE_LINK, at_step=AT, share=1.0)], BOUND, "the link of node n0 to n1", 0),
    ("a message between nodes takes 20 ms more", [dict(LATE, at_step=AT)], NODES + BOUND, "a round trip over the link of node", 0),
    ("a node is lost for good", [dict(GONE, at_step=1000)], NODES + BOUND, None, 1),
    ("the same, and it joins again 1,500 steps later", [dict(GONE, at_step=1000), {"kind": "joined", "node": "n1", "at_step": AT}], NODES + BOUND, None, 2),
    ("a node is lost, and is other hardware of half the speed 2 minutes later", [dict(GONE, at_step=1000, seconds=120.0, share=0.5)], NODES + BOUND, None, 0),
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


class Changing(Laboratory):
    def cluster(self, setting):
        fresh = not (self.directory / f"{setting[0]}.{setting[1]}x{setting[2]}.json").exists()
        path = super().cluster(setting)
        if fresh and setting in BOUND:
            document = json.loads(path.read_text())
            for link in document["links"]:
                link["bandwidth_bytes_per_s"] = min(link["bandwidth_bytes_per_s"], BOUND_BANDWIDTH)
            path.write_text(json.dumps(document))
        return path


def simulate(laboratory, scenarios, setting, event, seed):
    words = ["--budget", "2000ev", "--best-budget", "12000ev", "--scenario", scenarios[event], "--job", scenarios["job"]]
    return laboratory.simulate(setting, seed, *words)


def row_of(name, changes, cause, resizes, runs):
    told = [run["changes"] for run in runs]
    of_nodes = any(change["kind"] in ("lost", "joined") for change in changes)
    expected = 0 if of_nodes else len(changes)
    noticed = sum(len(of_run) >= expected for of_run in told)
    named = sum(any(cause and cause in one["what"] for one in of_run) for of_run in told)
    false = sum(max(0, len(of_run) - expected) for of_run in told)
    moved = sum(run["resizes"] == resizes for run in runs)
    after = [of_run[0]["noticed_step"] - changes[0]["at_step"] for of_run in told if expected and of_run]
    untuned = [one["untuned_regret"] for of_run in told for one in of_run[-1:] if "untuned_regret" in one]
    regret = [run["regret"] for run in runs]

    def percents(values):
        return f"{statistics.median(values):.1%}, {max(values):.1%}" if values else ""

    return " | ".join([
        f"| {name}", str(len(runs)), str(noticed) if expected else "", str(named) if cause else "", str(false),
        str(moved) if resizes else "",
        f"{statistics.median(after):.0f}, {max(after)}" if after else "", percents(untuned), percents(regret),
        f"{statistics.median(run['overhead_share'] for run in runs):.1%} |",
    ])  # fmt: skip


def table(arguments, results):
    lines = [
        "# Changes of the cluster in simulation", "",
        f"Made by `bench/simulate_drift.py --seeds {arguments.seeds}`: {', '.join(f'{m} on {n} x {d}' for m, n, d in SETTINGS + NODES[1:])}, {arguments.seeds} seeds each;",
        f"jobs that links bound are {', '.join(f'{m} on {n} x {d}' for m, n, d in BOUND)}, all links of {BOUND_BANDWIDTH / 1e9:.2f} GB/s;",
        "5,000 steps, wrong costs and noise as by default (docs/simulation.md), a look at the hardware each 60 s. Regret is against the best",
        "plan that longer searches with the true costs find on the cluster as it is in the end. Medians and largest. What costs a step less",
        "than 8 % is no drift of its own: where looks agree that hardware is slower another plan is searched, and the change is told only",
        "where one may be faster.", "",
        "| change | runs | noticed | rightly named | told beyond it | moved to the nodes there are | steps until noticed | regret of the plan that ran | regret of what was adopted | overhead |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    lines += [row_of(name, changes, cause, resizes, results[name]) for name, changes, _, cause, resizes in EVENTS if results[name]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="../shared/peers/aceso_v100")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="changes whose name has this")
    parser.add_argument("--out", default="bench/results/simulate_drift.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        laboratory = Changing(arguments, directory)
        scenarios = {"job": pathlib.Path(directory) / "job.toml"}
        scenarios["job"].write_text(JOB.format(name="changing", steps=5000) + TRIALS)
        for name, changes, *_ in EVENTS:
            scenarios[name] = pathlib.Path(directory) / f"{len(scenarios)}.toml"
            scenarios[name].write_text(scenario_of(changes))
        for setting in SETTINGS + NODES + BOUND:
            laboratory.cluster(setting)
        pending = {}
        for name, _, settings, *_ in EVENTS:
            for setting in settings if arguments.only in name else ():
                for seed in range(1, arguments.seeds + 1):
                    pending[pool.submit(simulate, laboratory, scenarios, setting, name, seed)] = (name, setting, seed)
        results = {name: [] for name, *_ in EVENTS}
        failed = []
        for done in concurrent.futures.as_completed(pending):
            name, setting, seed = pending[done]
            print(name, setting, seed, file=sys.stderr)
            try:
                results[name].append(done.result())
            except RuntimeError as refusal:
                failed.append(f"- {name}, {setting[0]} on {setting[1]} x {setting[2]}, seed {seed}: {refusal}")
    text = table(arguments, results) + ("\nFailed:\n\n" + "\n".join(failed) + "\n" if failed else "")
    pathlib.Path(arguments.out).write_text(text)


if __name__ == "__main__":
    main()
