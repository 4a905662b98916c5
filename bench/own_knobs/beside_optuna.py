"""Knobs of a job's own: what Trimtab's trials cost beside Optuna's TPE, on the same simulated jobs. Prints a Markdown table.

    python3 -m venv VENV && VENV/bin/pip install optuna==5.0.0
    VENV/bin/python bench/own_knobs/beside_optuna.py [--seeds 20] [--nothing 200] > bench/results/own_knobs.md

Trimtab's side is the coordinator's own machine with its own sequential test (bench/own_knobs/own_knob_jobs.cpp). Both sides meet the same step
times, the same noise of steps and launches, the same drift, and the same cost of a launch.
"""

import argparse
import itertools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH_S = 1.4  # of own_knob_jobs: two ranks, 0.7 s each
MOST_TRIALS = 60
GOOD = 1.02
QUIET = {"noise": 0.03, "launch_noise": 0.01, "drift": 0.0, "drift_s": 600}
BUSY = {"noise": 0.10, "launch_noise": 0.02, "drift": 0.05, "drift_s": 600}
STEPS = (5, 20)  # of a suggestion


METHOD = """Seconds are simulated ones of the device: a launch takes 1.4 s, a step some 0.1 s. What the job trains for itself between trials is
not counted. A side has reached its aim where the settings that it holds truly take at most 2 % more than the best: Trimtab those that
it has adopted, Optuna those of its best trial. Both are asked after each trial, which nobody could do who did not know the truth. Times are
medians over all seeds, a job that never gets there counting as never.

Optuna suggests 60 times, what is written first. As it comes: TPESampler's defaults, 20 steps a suggestion. Its best way is that with the least
median, in hindsight, of 5 or 20 steps, with MedianPruner (each 5 steps) or without, after 10 or 5 suggestions at random. It takes no
step for warm-up, and launches nothing but suggestions. "Good then" is how many jobs' answers are good when Trimtab ends by itself.

A quiet machine has noise of 3 % in a step and 1 % in a launch, a busy one 10 % and 2 %, and a drift of 5 % either way in ten minutes.
"""


class Shape:
    """Knobs with their values, the first of which is what is written, and a step's time by values."""

    def __init__(self, name, machine, values, effect, when=None):
        self.name, self.machine, self.values, self.effect, self.when = name, machine, values, effect, when or {}

    def job(self, seed):
        effect = self.effect(random.Random(f"{self.name} {seed}"), self.values)
        table = {}
        for point in itertools.product(*self.values.values()):
            table["|".join(point)] = 100.0 * math.exp(effect(self.counted(dict(zip(self.values, point)))))
        knobs = [f"{key.removeprefix('env:')}={','.join(values)}" for key, values in self.values.items()]
        whens = {str(list(self.values).index(key)): f"{other}={value}" for key, (other, value) in self.when.items()}
        return {"name": self.name, "seed": seed, "keys": list(self.values), "knobs": knobs, "when": whens,
                "written": {key: values[0] for key, values in self.values.items()}, "ms": table, "best_ms": min(table.values()),
                "trials": MOST_TRIALS, **self.machine}

    def counted(self, point):
        """A knob whose condition is not met acts as it is written."""
        return {key: self.values[key][0] if key in self.when and point[self.when[key][0]] != self.when[key][1] else value
                for key, value in point.items()}


def number(name, *values):
    return {f"env:{name}": [str(value) for value in values]}


def parts(rng, values, spread):
    """An effect of each value. Of numbers it has one valley, of words it is any."""
    effects = {}
    for key, names in values.items():
        if names[0].isdigit():
            best, width = rng.uniform(0, len(names) - 1), rng.uniform(0.5, 1.5) * spread / len(names)
            order = sorted(names, key=int)
            effects[key] = {name: width * abs(order.index(name) - best) for name in names}
        else:
            effects[key] = {name: rng.gauss(0, spread) for name in names}
    return effects


def additive(rng, values):
    effects = parts(rng, values, 0.15)
    return lambda point: sum(effects[key][value] for key, value in point.items())


def interacting(rng, values):
    effects = parts(rng, values, 0.1)
    first, second = list(values)[:2]
    pairs = {pair: rng.gauss(0, 0.08) for pair in itertools.product(values[first], values[second])}
    return lambda point: sum(effects[key][value] for key, value in point.items()) + pairs[point[first], point[second]]


def few_matter(rng, values):
    effects = parts(rng, values, 0.2)
    matter = rng.sample(list(values), 2)
    return lambda point: sum(effects[key][point[key]] for key in matter)


def nothing(_, __):
    return lambda point: 0.0


THREE = {**number("A", 2, 1, 4, 8), **number("B", 1, 2, 4), "env:C": ["x", "y", "z"]}
FOUR = {**number("A", 1, 2, 4, 8), **number("B", 4, 1, 2, 8), "env:C": ["x", "y", "z"], **number("D", 16, 32, 64)}
SIX = {**number("A", 1, 2, 4), **number("B", 2, 1, 4), "env:C": ["x", "y", "z"], **number("D", 1, 2, 4), **number("E", 8, 16, 32),
       "env:F": ["u", "v"]}
GUARDED = {"env:C": ["off", "on"], "env:M": ["p", "q", "r"], **number("A", 1, 2, 4, 8), **number("B", 4, 1, 2, 8)}
SHAPES = [
    Shape("additive, 4 knobs", QUIET, FOUR, additive),
    Shape("interaction, 4 knobs", QUIET, FOUR, interacting),
    Shape("a condition, 4 knobs", QUIET, GUARDED, additive, {"env:M": ("env:C", "on")}),
    Shape("two of 6 knobs matter", QUIET, SIX, few_matter),
    Shape("additive, 3 knobs, busy machine", BUSY, THREE, additive),
    Shape("interaction, 6 knobs, busy machine", BUSY, SIX, interacting),
]
NOTHING = [Shape("nothing matters", QUIET, THREE, nothing), Shape("nothing matters, busy machine", BUSY, THREE, nothing)]


def tuned(program, jobs):
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Machine:
    """Runs suggestions of Optuna's, as own_knob_jobs runs launches."""

    def __init__(self, job, seed):
        self.job, self.rng, self.at, self.launch_factor = job, random.Random(seed), 0.0, 1.0

    def launch(self):
        self.at += LAUNCH_S
        self.launch_factor = math.exp(self.job["launch_noise"] * self.rng.gauss(0, 1))

    def step(self, true_ms):
        drift = 1 + self.job["drift"] * math.sin(2 * math.pi * (self.at / self.job["drift_s"] + self.job["seed"] % 7 / 7))
        ms = true_ms * self.launch_factor * drift * math.exp(self.job["noise"] * self.rng.gauss(0, 1))
        self.at += ms / 1000
        return ms


def suggested(trial, shape):
    """A knob is suggested where its condition is met."""
    point = {}
    for key, values in shape.values.items():
        other = shape.when.get(key)
        if other and point[other[0]] != other[1]:
            point[key] = values[0]
        else:
            point[key] = trial.suggest_categorical(key, values)
    return point


def optunas(job, shape, steps, pruned, startup):
    """After each of its trials: seconds, and the true time of the settings that it holds best."""
    import optuna

    machine = Machine(job, job["seed"] * 1000 + steps)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=0) if pruned else optuna.pruners.NopPruner()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=job["seed"], n_startup_trials=startup), pruner=pruner)
    study.enqueue_trial({key: job["written"][key] for key in shape.values if key not in shape.when})
    held = []

    def objective(trial):
        true_ms = job["ms"]["|".join(suggested(trial, shape).values())]
        trial.set_user_attr("ms", true_ms)
        machine.launch()
        seen = []
        for step in range(steps):
            seen.append(machine.step(true_ms))
            if (step + 1) % 5 == 0 and step + 1 < steps:
                trial.report(statistics.median(seen), step)
                if trial.should_prune():
                    raise optuna.TrialPruned
        return statistics.median(seen)

    study.optimize(objective, n_trials=MOST_TRIALS, callbacks=[lambda done, _: held.append((machine.at, done.best_trial.user_attrs["ms"]))])
    return held


def reached(held, job):
    return next((at for at, ms in held if ms <= GOOD * job["best_ms"]), None)


def good_at(held, seconds, job):
    """Whether its answer is good where it is asked for it at this time; at its end where that comes first."""
    before = [ms for at, ms in held if at <= seconds] or [held[0][1]]
    return before[-1] <= GOOD * job["best_ms"]


def median(seconds):
    """Of times of which None is longer than all."""
    ordered = sorted(math.inf if one is None else one for one in seconds)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def shown(seconds):
    return "never" if math.isinf(seconds) else f"{seconds:.0f}"


def share(seconds):
    return f"{sum(one is not None for one in seconds)}/{len(seconds)}"


def compared(program, shape, seeds):
    jobs = [shape.job(seed) for seed in range(1, seeds + 1)]
    results = tuned(program, jobs)
    own = [one["reached_s"] if one["reached_s"] >= 0 else None for one in results]
    runs = {}
    for steps, pruned, startup in itertools.product(STEPS, (False, True), (10, 5)):
        if not pruned or steps > 5:
            runs[steps, pruned, startup] = [optunas(job, shape, steps, pruned, startup) for job in jobs]
    ways = {way: [reached(*one) for one in zip(held, jobs)] for way, held in runs.items()}
    best = min(ways, key=lambda way: (median(ways[way]), -sum(one is not None for one in ways[way])))
    usual = (20, False, 10)
    good = sum(one["end_ms"] <= GOOD * job["best_ms"] for one, job in zip(results, jobs))
    theirs = sum(good_at(held, one["spent_s"], job) for held, one, job in zip(runs[best], results, jobs))
    regret = statistics.mean(one["end_ms"] / job["best_ms"] - 1 for one, job in zip(results, jobs))
    ratio = median(own) / median(ways[best])
    cells = [shape.name, shown(median(own)), share(own), shown(median(ways[usual])), share(ways[usual]), shown(median(ways[best])),
             share(ways[best]), f"{best[0]} steps{', pruned' if best[1] else ''}, {best[2]} at random", f"{ratio:.1f}",
             shown(statistics.median(one["spent_s"] for one in results)), f"{statistics.median(one['trials'] for one in results):.0f}",
             f"{good}/{seeds}", f"{theirs}/{seeds}", f"{100 * regret:.1f} %"]
    print("| " + " | ".join(cells) + " |", flush=True)


def changed_by_optuna(shape, seeds):
    """Jobs whose answer is other than what is written although nothing matters."""
    count = 0
    for seed in range(1, seeds + 1):
        job = shape.job(seed)
        # Where all settings take the same, the times say which they are.
        job["ms"] = {point: 100.0 * (1 + index * 1e-9) for index, point in enumerate(job["ms"])}
        count += optunas(job, shape, 20, False, 10)[-1][1] != 100.0
    return count


def interval(hits, count):
    """95 %, by Wilson."""
    z, p = 1.96, hits / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return [100 * (middle - half) / (1 + z * z / count), 100 * (middle + half) / (1 + z * z / count)]


def false_adoptions(program, shape, seeds):
    results = tuned(program, [{**shape.job(seed), "best_ms": 1.0} for seed in range(1, seeds + 1)])
    trials, adopted = sum(one["trials"] for one in results), sum(one["adopted"] for one in results)
    jobs = sum(one["adopted"] > 0 for one in results)
    of_trials, of_jobs = interval(adopted, trials), interval(jobs, seeds)
    theirs = changed_by_optuna(shape, min(seeds, 20))
    print(f"| {shape.name} | {adopted} of {trials}: {100 * adopted / trials:.1f} % ({of_trials[0]:.1f} to {of_trials[1]:.1f} %) | "
          f"{jobs} of {seeds}: {100 * jobs / seeds:.1f} % ({of_jobs[0]:.1f} to {of_jobs[1]:.1f} %) | "
          f"{theirs} of {min(seeds, 20)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "own_knob_jobs")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--nothing", type=int, default=200, help="jobs whose knobs change nothing")
    given = parser.parse_args()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"# Knobs of one's own beside Optuna {optuna.__version__}\n")
    print(f"Made by `bench/own_knobs/beside_optuna.py --seeds {given.seeds} --nothing {given.nothing}`.\n")
    print(METHOD)
    print("| job | Trimtab, s | reached | Optuna as it comes, s | reached | Optuna's best way, s | reached | that way | ratio | Trimtab's end, s | "
          "trials | good then | Optuna's good then | above the best |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape in SHAPES:
        compared(given.program, shape, given.seeds)
    print("\n| knobs that change nothing | trials that adopted | jobs that adopted | jobs that Optuna changed |\n| --- | ---: | ---: | ---: |")
    for shape in NOTHING:
        false_adoptions(given.program, shape, given.nothing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
