#!/usr/bin/env python3
"""Tunes simulated jobs over the published Aceso profiles and writes bench/results/simulate.md.

Usage: bench/simulate_table.py [--build build/release] [--peers ../shared/peers/aceso_v100] [--seeds 25]
                               [--other-seeds N] [--scale N] [--scale-budget 2000ev] [--first-seed 1] [--only SETTING]
                               [--planners tuner,random,hill-climb] [--others N] [--jobs 1] [--scenario FILE]
                               [--strategy NAME]
                               [--out bench/results/simulate.md] [--raw FILE] [--from FILE]

--raw keeps every run as it ends, so that an interrupted table is not lost: --from takes the runs that a file has, and
only the others are made.

Every run is `trimtab simulate`: the coordinator's tuning machine, planner and statistics against a hidden truth that is
wrong by a random factor for each class of costs, differs for each single cost, and is measured with noise. The same
seed gives the same truth to every planner. Jobs may use every knob that the profiles have costs for. "Model alone" is the
first search's best plan, adopted without a trial. A run that fails is a failure of its setting. For --others seeds the
tuner is also compared with a grid and a sweep; the sweep is no planner that anybody would use: it tries every plan of few
words, however many trials that takes.
Standard library only.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Profile, nodes, devices of a node. Links between nodes are those of the published testbed.
SETTINGS = [
    ("gpt-350M", 1, 4),
    ("gpt-1_3B", 1, 4),
    ("gpt-1_3B", 2, 4),
    ("gpt-2_6B", 1, 8),
    ("resnet-500M", 1, 4),
    ("resnet-2B", 1, 8),
    ("t5-770M", 1, 4),
    ("scale-layer-32layers", 1, 8),
]  # fmt: skip
# Large ones: profile, nodes, devices of a node, samples of a step, microbatches. Costs over nodes are those of link models.
SCALE = [
    ("gpt-1_3B", 125, 8, 4000, [1, 2, 4, 8, 25, 50, 100, 125, 200, 250, 400, 500, 1000, 2000, 4000]),
    ("gpt-1_3B", 2048, 8, 16384, [2**i for i in range(15)]),
]
MEMORY = 40 * 2**30  # of a device: the published 28 GiB leave no plain plan to begin with
# A job file needs commands; a simulated job does not run them.
JOB = """schema = "trimtab.job/1"
name = "{name}"
mode = "auto"
world_size = 1
steps = {steps}
{strategy}working_directory = "/tmp"
[commands]
describe = ["true"]
benchmark = ["true"]
train = ["true"]
"""
# Stages, microbatches, replicas and recompute are open in any job. The profiles have no costs of what sub-batches and memory
# switches do: computing beside collectives, optimizers and copies on the host. Slices are left to the target that has them.
OPEN = JOB + """[knobs]
tensor_parallel = true
sharded = true
[trials]
max_trials = {trials}
overhead = {overhead}
deadline_s = 3600
"""
OTHERS = ["tuner", "random", "grid", "grid-fast", "sweep"]
NAMES = {
    "hill-climb": "trials alone (hill-climb)",
    "random": "random search",
    "grid": "grid (sharding x samples)",
    "grid-fast": "grid, fast mode",
    "sweep": "every plan of few words",
}
TESTBED = "gpt-13B"  # its cluster document names links inside of nodes and between them


def name_of(setting):
    model, nodes, devices = setting[:3]
    return f"{model} on {nodes} x {devices}"


class Laboratory:
    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.trimtab = pathlib.Path(arguments.build) / "bin" / "trimtab"
        self.directory = pathlib.Path(directory)
        self.costs = self.directory / "costs.db"
        self.jobs = {name: self.directory / f"{name}.toml" for name in ("open", "sweep")}
        strategy = f'strategy = "{arguments.strategy}"\n' if arguments.strategy else ""
        self.jobs["open"].write_text(OPEN.format(name="open", steps=5000, trials=12, overhead=0.02, strategy=strategy))
        # As many trials and steps as it takes.
        self.jobs["sweep"].write_text(OPEN.format(name="sweep", steps=10**6, trials=10**5, overhead=1.0, strategy=""))
        self.call("db", "import", "--format", "aceso", arguments.peers, self.costs, "--documents", self.directory)

    def call(self, *words):
        done = subprocess.run([str(self.trimtab), *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"trimtab {words[0]}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout

    def cluster(self, setting):
        """The published cluster of the model with another count of nodes and devices."""
        model, nodes, devices = setting[:3]
        path = self.directory / f"{model}.{nodes}x{devices}.json"
        if path.exists():
            return path
        document = json.loads((self.directory / f"{model}.cluster.json").read_text())
        node = document["nodes"][0]
        document["nodes"] = [dict(node, name=f"n{i}", devices=devices, memory_bytes=MEMORY) for i in range(nodes)]
        document["links"] = json.loads((self.directory / f"{TESTBED}.cluster.json").read_text())["links"]
        path.write_text(json.dumps(document))
        return path

    def model(self, setting):
        path = self.directory / f"{setting[0]}.json"
        if len(setting) == 3:
            return path
        model, nodes, devices, samples, microbatches = setting
        document = json.loads(path.read_text())
        document["global_batch"] = samples
        document["microbatch_values"]["total"] = microbatches
        larger = self.directory / f"{model}.{nodes}x{devices}.model.json"
        larger.write_text(json.dumps(document))
        return larger

    def simulate(self, setting, seed, *words):
        common = ["--model", self.model(setting), "--cluster", self.cluster(setting), "--costs", self.costs, "--seed", seed]
        return json.loads(self.call("simulate", *common, "--quiet", "--json", *words))

    def run(self, setting, planner, seed):
        words = ["--planner", planner]
        large = len(setting) > 3
        words += ["--budget", self.arguments.scale_budget if large else self.arguments.budget]
        words += ["--best-budget", self.arguments.scale_budget if large else self.arguments.best_budget]
        if not large:
            words += ["--job", self.jobs["sweep" if planner == "sweep" else "open"]]
        if self.arguments.scenario:
            words += ["--scenario", self.arguments.scenario]
        return self.simulate(setting, seed, *words)


def seeds_of(arguments, planner):
    return arguments.seeds if planner == "tuner" else min(arguments.seeds, arguments.other_seeds)


def attempt(laboratory, setting, planner, seed):
    try:
        answer = laboratory.run(setting, planner, seed)
    except RuntimeError as refusal:
        return {"setting": name_of(setting), "planner": planner, "seed": seed, "error": str(refusal)}
    return dict(answer, setting=name_of(setting), planner=planner)


def share_text(part, whole):
    return "–" if whole == 0 else f"{100 * part / whole:.1f} %"


def upper_bound(events, trials):
    """The 95 % upper bound of a rate (Clopper and Pearson), by bisection."""
    if trials == 0:
        return 1.0

    def at_most(rate):
        return sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(events + 1))

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > 0.05 else (low, middle)
    return high


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def bound_text(runs):
    """How far the best plans found by true costs are above what no plan can take less than, by these costs."""
    apart = [run["best_of_costs_ms"] / run["lower_bound_of_costs_ms"] - 1 for run in runs if run["lower_bound_of_costs_ms"] > 0]
    return f"{100 * statistics.median(apart):.1f} %, {100 * max(apart):.1f} %" if apart else "–"


def row(name, all_runs):
    """A run that failed is not within 2 %; the other figures are of those that ran."""
    runs = [run for run in all_runs if "error" not in run]
    if not runs:
        return f"| {name} | {len(all_runs)} | {len(all_runs)} | 0.0 % |" + " – |" * (len(COLUMNS) - 4)
    regrets = [run["regret"] for run in runs]
    within = sum(regret <= 0.02 for regret in regrets)
    reached = [run["trials_to_2_percent"] for run in runs if run["trials_to_2_percent"] >= 0]
    worse = sum(run["truly_worse_trials"] for run in runs)
    false = sum(run["false_adoptions"] for run in runs)
    cells = [
        name, len(all_runs), len(all_runs) - len(runs), share_text(within, len(all_runs)),
        f"{100 * statistics.mean(regrets):.2f} %", f"{100 * percentile(regrets, 0.95):.2f} %",
        f"{statistics.mean(len(run['trials']) for run in runs):.1f}",
        f"{statistics.median(reached):.0f}" if reached else "–",
        f"{false} of {worse}", share_text(false, worse),
        f"{100 * statistics.mean(run['overhead_share'] for run in runs):.2f} %",
        f"{100 * max(run['overhead_share'] for run in runs):.2f} %",
        f"{statistics.mean(run['overhead_device_hours'] for run in runs):.2f}",
        f"{statistics.mean(run['gain'] for run in runs):.2f}", bound_text(runs),
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def model_alone_row(runs):
    known = [run for run in runs if "model_alone" in run]
    fits = [run["model_alone"] for run in known if run["model_alone"]["fits"]]
    regrets = [one["regret"] for one in fits]
    within = sum(regret <= 0.02 for regret in regrets)
    worse = sum(run["model_alone"]["true_ms"] >= run["initial_true_ms"] for run in known)
    cells = [
        "model alone", len(known), 0, share_text(within, len(known)),
        f"{100 * statistics.mean(regrets):.2f} %" if regrets else "–",
        f"{100 * percentile(regrets, 0.95):.2f} %" if regrets else "–",
        0, "–", f"{worse} worse than the initial plan, {len(known) - len(fits)} out of memory", "–", "–", "–", "–", "–", "–",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


COLUMNS = [
    "", "runs", "failed", "within 2 % of the best", "mean regret", "95th percentile", "trials", "median trials to 2 %",
    "worse plans adopted", "rate", "mean overhead", "most", "device hours", "gain over the initial plan",
    "best above the bound",
]  # fmt: skip


def goal_of(run, best):
    """(device hours of the job, device hours of overhead, trials) until it ran within 2 % of `best`; None = never."""
    if run["initial_true_ms"] <= 1.02 * best:
        return 0.0, 0.0, 0
    for trial in run["trials"]:
        if trial["incumbent_after_true_ms"] <= 1.02 * best:
            devices = run["devices"]
            return devices * trial["elapsed_hours"], devices * trial["overhead_hours"], trial["id"]
    return None


def spent_of(run):
    last = run["trials"][-1] if run["trials"] else None
    return run["devices"] * last["elapsed_hours"] if last else 0.0


def others_row(name, runs, bests):
    reached = [(run, goal_of(run, best)) for run, best in zip(runs, bests)]
    hit = [goal for _, goal in reached if goal]
    cells = [
        name, len(runs), f"{statistics.mean(len(run['trials']) for run in runs):.0f}", share_text(len(hit), len(runs)),
        f"{statistics.median(goal[2] for goal in hit):.0f}" if hit else "–",
        f"{statistics.median(goal[0] for goal in hit):.1f}" if hit else "–",
        f"{statistics.median(goal[1] for goal in hit):.2f}" if hit else "–",
        f"{statistics.mean(goal[0] if goal else spent_of(run) for run, goal in reached):.1f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def others_section(runs, planners):
    """Only jobs that every planner has tuned, so that medians are of the same jobs."""
    by = {(run["planner"], run["setting"], run["seed"]): run for run in runs}
    planners = [planner for planner in planners if any(of == planner for of, _, _ in by)]
    jobs = [(s, n) for p, s, n in by if p == "sweep" and all((one, s, n) in by for one in planners)]
    if not jobs:
        return ""
    best = {job: min(by[(planner, *job)]["best_true_ms"] for planner in planners) for job in jobs}
    swept = {job: min([by["sweep", *job]["adopted_true_ms"]] + [t["true_ms"] for t in by["sweep", *job]["trials"]
                      if t["state"] != "failed"]) for job in jobs}  # fmt: skip
    text = f"""
## Against others

{len(jobs)} jobs that all planners have tuned, with the trials of the tuner (racing against the incumbent) for all. `grid` tries
levels of sharding by counts of samples in the order of DeepSpeed's autotuner, with the initial plan's recompute; in its fast mode of
each level the least, the most that fits and one between. The last tries every plan of even stages, one split, one level of
sharding and all or nothing recomputed, {statistics.mean(len(by["sweep", *job]["trials"]) for job in jobs):.0f} trials a job and no limit; the others have at most 12. Hours are those of all devices
since the job began, training included, and of overhead alone; "spent" counts all trials where the goal is never met. All leave
out plans that are predicted not to fit; only the tuner predicts time.
"""
    for title, goals in (
        ("Within 2 % of the best of all plans", best),
        ("Within 2 % of the best of the plans of few words, each measured", swept),
    ):
        text += f"\n{title}:\n\n"
        text += "| | jobs | trials | reached | median trials until then | median device hours | of those overhead | mean device hours spent |\n"
        text += "|" + " --- |" * 8 + "\n"
        for planner in planners:
            of = [by[(planner, *job)] for job in jobs]
            text += others_row(NAMES.get(planner, planner), of, [goals[job] for job in jobs]) + "\n"
    apart = [swept[job] / best[job] - 1 for job in jobs]
    text += f"\nThe best plan of few words takes {100 * statistics.median(apart):.1f} % longer than the best of all (median; most {100 * max(apart):.1f} %).\n"
    return text


def heading():
    return f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"


def scale_section(arguments, runs):
    if not runs:
        return ""
    text = f"""
## At scale

Jobs of the usual knobs, searches of {arguments.scale_budget}, the best by as many. Planning is processor time of all of the job's searches, from the first to the last trial.

| | devices | seed | planning | searches | longest | trials | gain over the initial plan | regret | overhead | worse plans adopted |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
    for run in sorted(runs, key=lambda one: (one["devices"], one["seed"])):
        planning = run["planning"]
        cells = [
            run["setting"], run["devices"], run["seed"], f"{planning['seconds']:.1f} s", planning["searches"],
            f"{planning['longest_search_seconds']:.1f} s", len(run["trials"]), f"{run['gain']:.2f}",
            f"{100 * run['regret']:.2f} %", f"{100 * run['overhead_share']:.2f} %", run["false_adoptions"],
        ]  # fmt: skip
        text += "| " + " | ".join(map(str, cells)) + " |\n"
    return text


# Without files of this machine's.
def command():
    words = sys.argv[1:]
    kept = [word for at, word in enumerate(words) if word not in ("--raw", "--from") and words[at - 1 : at] not in (["--raw"], ["--from"])]
    return " ".join(["bench/simulate_table.py", *kept])


def report(arguments, runs):
    large = {name_of(setting) for setting in SCALE}
    scale = [run for run in runs if "error" not in run and run["setting"] in large]
    runs = [run for run in runs if run["setting"] not in large or "error" in run]
    small = [run for run in runs if run["setting"] not in large]
    good = [run for run in small if "error" not in run]
    tuner = [run for run in good if run["planner"] == "tuner"]
    measured = sum(run["measured_trials"] for run in tuner)
    worse = sum(run["truly_worse_trials"] for run in tuner)
    false = sum(run["false_adoptions"] for run in tuner)
    text = f"""# Simulated tuning over the published Aceso profiles

Made by `{command()}`. {len(tuner)} runs of the tuner: {len({run["setting"] for run in tuner})} settings, seeds
{arguments.first_seed} to {arguments.first_seed + arguments.seeds - 1}; searches of {arguments.budget}, the true best by two strategies on the true costs with
{arguments.best_budget} each (or any plan a run met, if faster). Truth, noise and switching are the defaults of `trimtab simulate` unless
a scenario is named above: what plans truly take differs from the true costs, too, by the way they run operators and by plan. Every job has 5,000
steps, at most 12 trials and all knobs that the profiles have costs for. Regret is what the plan at the end takes beyond
the best that is known, by the truth. Overhead is the share of the job's time that went into changing plans, warm-up, slower
candidates and failures. A run that failed is one that is not within 2 %; other figures are of those that ran. "Best above the
bound": how far the fastest plan by the true costs is above the time that by these costs no plan takes less than (median, most).

## Planners

{heading()}"""
    for planner in arguments.planners.split(","):
        of = [run for run in small if run["planner"] == planner]
        if of:
            text += row(NAMES.get(planner, planner), of) + "\n"
    if tuner:
        text += model_alone_row(tuner) + "\n"
        text += f"""
The tuner's {false} false adoptions of {worse} trials of truly no faster plans: a rate of at most
{100 * upper_bound(false, worse):.2f} % (95 % confidence); stated: 2.5 % for each trial. The interval of a trial's speedup covered the truth
in {share_text(sum(run['ratios_covered'] for run in tuner), measured)} of {measured} trials, the interval of the prediction before it in
{share_text(sum(run['predictions_covered'] for run in tuner), measured)}. {sum(run['out_of_memory_trials'] for run in tuner)} trials ran out of memory.

## The tuner by setting

{heading()}"""
        for name in dict.fromkeys(run["setting"] for run in small):
            text += row(name, [run for run in small if run["setting"] == name and run["planner"] == "tuner"]) + "\n"
    text += others_section(good, OTHERS)
    text += scale_section(arguments, scale)
    errors = [run for run in runs if "error" in run]
    if errors:
        text += "\nFailed:\n\n" + "".join(f"- {e['setting']}, {e['planner']}, seed {e['seed']}: {e['error']}\n" for e in errors)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT.parent / "shared" / "peers" / "aceso_v100")
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--other-seeds", type=int, default=1000, help="of the planners that are not the tuner, at most")
    parser.add_argument("--others", type=int, default=0, help="seeds of the comparison with other searches")
    parser.add_argument("--scale", type=int, default=0, help="seeds of the jobs of 1,000 and 16,384 devices")
    parser.add_argument("--scale-budget", default="2000ev")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--planners", default="tuner,random,hill-climb")
    parser.add_argument("--budget", default="10000ev")
    parser.add_argument("--best-budget", default="60000ev")
    parser.add_argument("--scenario", default="")
    parser.add_argument("--strategy", default="", help="that the jobs name; empty: they name none")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--raw", type=pathlib.Path, help="every run's document, one a line, appended")
    parser.add_argument("--from", dest="earlier", type=pathlib.Path, help="runs that need not be made again")
    arguments = parser.parse_args()
    earlier = {}
    if arguments.earlier and arguments.earlier.exists():
        for line in arguments.earlier.read_text().splitlines():
            one = json.loads(line)
            earlier[one["setting"], one["planner"], one["seed"]] = one
    settings = [one for one in SETTINGS if arguments.only in name_of(one)]
    with tempfile.TemporaryDirectory() as directory:
        laboratory = Laboratory(arguments, directory)
        for setting in settings:
            laboratory.cluster(setting)
        # Seed by seed, so that a table of what there is so far is a fair one.
        tasks = [
            (setting, planner, seed)
            for planner in arguments.planners.split(",")
            for seed in range(arguments.first_seed, arguments.first_seed + seeds_of(arguments, planner))
            for setting in settings
        ]
        tasks += [
            (setting, planner, seed)
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.others)
            for setting in settings
            for planner in OTHERS
        ]
        tasks = list(dict.fromkeys(tasks))  # some are of both tables
        tasks += [(setting, "tuner", seed) for seed in range(1, arguments.scale + 1) for setting in SCALE]
        lock = threading.Lock()

        def make(task):
            setting, planner, seed = task
            if (name_of(setting), planner, seed) in earlier:
                return earlier[name_of(setting), planner, seed]
            run = attempt(laboratory, *task)
            with lock:
                if arguments.raw and "error" not in run:
                    with arguments.raw.open("a") as out:
                        out.write(json.dumps(run) + "\n")
            return run

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs = list(pool.map(make, tasks))
    text = report(arguments, runs)
    if arguments.out:
        arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
