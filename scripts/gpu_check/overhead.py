"""What the collectors cost: the same work in processes with more and more of them, in turn, again and again."""
import json
import statistics

from . import arms, child
from .paired import median_ratio, noise, paired, percentile
from .sections import Failed

CHAIN_WORDS = ("chain", "--kernel-us", "5,20,100", "--kernels", "100", "--steps", "25", "--graph")
TRAINING_ARMS = (arms.BARE, "guarded", arms.BARE_AGAIN)  # A run takes seconds: first the arm that is judged.
MORE_ROUNDS = 5  # Of all arms, where the budget has room for them.
ROUNDS = arms.LEAST_PAIRS + 2  # The first does not count, and one may be lost.
MEASURES = {"median": statistics.median, "p99": lambda values: percentile(values, 0.99)}


def collect(names, run_arm, budget, rounds=ROUNDS, discarded=1, longest=0.0):
    """[{arm: what run_arm(arm) gave}] of whole rounds, less those discarded; stops when another, which takes as many
    seconds as the longest, would not fit."""
    kept = []
    for number in range(rounds + discarded):
        before = budget.left()
        if before <= longest * 1.1:
            break
        runs = {arm: run_arm(arm) for arm in arms.order(names, number)}
        longest = max(longest, before - budget.left())
        if number >= discarded:
            kept.append(runs)
    return kept


def compare(rounds, names, values_of):
    """{arm: {"median": Ratio, "p99": Ratio}} of the arms over the bare runs, and of the bare runs over each other."""
    table = {}
    for arm in names:
        if arm == arms.BARE:
            continue
        table[arm] = {}
        for name, reduce in MEASURES.items():
            def measure(run, reduce=reduce):
                return reduce(values_of(run))
            if arm == arms.BARE_AGAIN:
                ratios = noise(rounds, arms.BARE, arms.BARE_AGAIN, measure)
            else:
                ratios = paired(rounds, arm, (arms.BARE, arms.BARE_AGAIN), measure)
            table[arm][name] = median_ratio(ratios).document()
    return table


def verdict(workloads):
    """Raises Failed where the guarded arm's cost may exceed the limit, or where there are too few pairs to say."""
    problems = []
    for workload, table in workloads.items():
        guarded = table["step"]["guarded"]["median"]
        if guarded["pairs"] < arms.LEAST_PAIRS:
            problems.append(f"{workload}: {guarded['pairs']} pairs, {arms.LEAST_PAIRS} are needed")
        elif guarded["high"] - 1 > arms.LIMIT:
            problems.append(f"{workload}: up to {100 * (guarded['high'] - 1):.2f} % of the step, "
                            f"{100 * arms.LIMIT:.1f} % are allowed")
    return problems


def finish(result):
    problems = verdict(result["workloads"])
    if problems:
        raise Failed("; ".join(problems), result)
    return result


def chain(installation, daemons, inherited, budget):
    """Kernel chains of three lengths and a graph's replay."""
    def run_arm(arm):
        added = arms.environment(arm, installation.library, daemons.socket)
        environment = {**arms.cleared(inherited), **installation.bench_environment(added)}
        return chains_in(child.run([installation.bench, *CHAIN_WORDS], budget, environment=environment, most_s=60))

    names = tuple(arms.ARMS)
    rounds = collect(names, run_arm, budget)
    if not rounds:
        raise Failed("no whole round fitted into the budget")
    workloads = {}
    for workload in rounds[0][arms.BARE]:
        workloads[workload] = {
            "step": compare(rounds, names, lambda run, w=workload: run[w]["step_ns"]),
            "host_per_launch": compare(rounds, names, lambda run, w=workload: run[w]["host_ns_per_launch"]),
            "gpu_per_kernel": compare(rounds, names, lambda run, w=workload: run[w]["gpu_ns_per_kernel"]),
            "medians": {arm: medians(rounds, arm, workload) for arm in names}}
    return finish({"workloads": workloads, "kernel_cost_ns": kernel_cost_ns(workloads), "agent": dropped(daemons)})


def kernel_cost_ns(workloads):
    """What a kernel's record costs on the device, for TRIMTAB_KERNEL_COST_NS: the shortest kernels' difference."""
    plain = [one["medians"] for name, one in workloads.items() if not name.startswith("graph")]
    name = "gpu_ns_per_kernel"
    shortest = min(plain, key=lambda medians: medians[arms.BARE][name])
    return max(0, round(shortest["kernels only"][name] - shortest[arms.BARE][name]))


def chains_in(output):
    """{workload: chain document} of the bench's lines."""
    found = {}
    for line in output.splitlines():
        document = json.loads(line) if line.startswith("{") else {}
        if "chain" in document:
            one = document["chain"]
            found[f"{'graph of ' if one['graph'] else ''}{one['kernel_ns'] // 1000} us kernels"] = one
    return found


def medians(rounds, arm, workload):
    """An arm's plain figures, over its runs."""
    runs = [runs[arm][workload] for runs in rounds]
    middle = {name: statistics.median(statistics.median(run[name]) for run in runs)
              for name in ("step_ns", "host_ns_per_launch", "gpu_ns_per_kernel")}
    middle.update({name: statistics.median(run[name] for run in runs)
                   for name in ("first_launch_ns", "resident_bytes", "device_bytes")})
    return middle


def dropped(daemons):
    return {name: value for name, value in daemons.metrics().items()
            if any(word in name for word in ("dropped", "skipped", "malformed", "incomplete"))}


def training(trainer, installation, daemons, inherited, budget):
    """A PyTorch training step. `trainer` runs it in a process of its own (torch_programs.py). The arm that is judged
    comes first; the others have what is left of the budget, and few pairs."""
    longest = 0.0

    def run_arm(arm):
        nonlocal longest
        before = budget.left()
        environment = {**arms.cleared(inherited), **arms.environment(arm, installation.library, daemons.socket)}
        result = trainer.run(environment, {"steps": 100}, budget)
        longest = max(longest, before - budget.left())
        return result

    rounds = collect(TRAINING_ARMS, run_arm, budget)
    if not rounds:
        raise Failed("no whole round fitted into the budget")
    names = tuple(arms.ARMS)
    more = collect(names, run_arm, budget, rounds=MORE_ROUNDS, discarded=0, longest=longest * len(names))
    others = compare(more, names, lambda run: run["step_ns"]) if more else {}
    judged = compare(rounds, TRAINING_ARMS, lambda run: run["step_ns"])
    workload = {"step": {arm: judged.get(arm) or others[arm] for arm in names if arm in judged or arm in others},
                "medians": {arm: {"step_ns": statistics.median(statistics.median(runs[arm]["step_ns"])
                                                               for runs in rounds + more if arm in runs)}
                            for arm in names if more or arm in TRAINING_ARMS}}
    return finish({"workloads": {"training step": workload}, "agent": dropped(daemons)})
