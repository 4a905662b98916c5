"""What the collectors cost: the same work in processes with more and more of them, in turn, again and again."""
import json
import statistics

from . import arms, child
from .installation import grown
from .paired import median_ratio, noise, paired, percentile
from .sections import Failed

CHAIN_WORDS = ("chain", "--kernel-us", "5,20,100", "--kernels", "100", "--steps", "25", "--graph")
# A run ends before the budget would hold anything back: what full collecting costs is what it shows.
CHAIN_ARMS = tuple(name for name in arms.ARMS if name != arms.GUARDED)
# Of the shortest kernels, for twenty seconds.
BUDGET_WORDS = ("chain", "--kernel-us", "5", "--kernels", "100", "--steps", "32000")
SETTLED = 0.3  # Of the steps, from which on the budget is judged.
ROUNDS = arms.LEAST_PAIRS + 2  # Of chains the first does not count, and one may be lost.
MEASURES = {"median": statistics.median, "p99": lambda values: percentile(values, 0.99)}


def collect(names, run_arm, budget, rounds=ROUNDS, discarded=1):
    """[{arm: what run_arm(arm) gave}] of whole rounds, less those discarded; stops when another, which takes as many
    seconds as the longest, would not fit."""
    kept, longest = [], 0.0
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


def chain(installation, daemons, inherited, budget):
    """Kernel chains of three lengths and a graph's replay: what each collector costs that nothing holds back."""
    def run_arm(arm):
        added = arms.environment(arm, installation.library, daemons.socket)
        environment = {**arms.cleared(inherited), **installation.bench_environment(added)}
        return chains_in(child.run([installation.bench, *CHAIN_WORDS], budget, environment=environment, most_s=60))

    names = CHAIN_ARMS
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
    return {"workloads": workloads, "cost_ns": cost_ns(workloads), "agent": dropped(daemons)}


def cost_ns(workloads):
    """What the record of a kernel and of a graph's launch cost the device and the launching host, of the shortest
    kernels: what TRIMTAB_KERNEL_COST_NS and TRIMTAB_GRAPH_COST_NS are about."""
    costs = {}
    for what, is_graph in (("kernel", False), ("graph", True)):
        fitting = [one["medians"] for name, one in workloads.items() if name.startswith("graph") == is_graph]
        if not fitting:
            continue
        shortest = min(fitting, key=lambda medians: medians[arms.BARE]["step_ns"])
        names = {"device": "step_ns" if is_graph else "gpu_ns_per_kernel", "host": "host_ns_per_launch"}
        costs[what] = {side: max(0, round(shortest["kernels only"][name] - shortest[arms.BARE][name]))
                       for side, name in names.items()}
    return costs


def held_to_budget(installation, daemons, inherited, budget):
    """The shortest kernels under everything, held to the default budget: how much of the time goes beyond steps of which
    nothing is recorded. Within one process, because two differ by more than the budget."""
    added = arms.environment(arms.GUARDED, installation.library, daemons.socket)
    environment = {**arms.cleared(inherited), **installation.bench_environment(added)}
    before = daemons.settled(budget)
    chain_run, = chains_in(child.run([installation.bench, *BUDGET_WORDS], budget, environment=environment)).values()
    recorded = grown(before, daemons.settled(budget), "trimtab_agent_kernels_total")
    return judge_budget(chain_run["step_ns"], chain_run["kernels"], recorded)


def judge_budget(steps, launched, recorded):
    """The section's result; raises Failed where too much time is lost, nothing is recorded, or so much that the median step
    was recorded too: then the share says nothing."""
    result = {**share_lost(steps), "kernels": {"launched": launched, "recorded": recorded}}
    if result["share"] > arms.LIMIT:
        raise Failed(f"{100 * result['share']:.2f} % of the time, {100 * arms.LIMIT:.1f} % are allowed", result)
    if recorded == 0:
        raise Failed("nothing was recorded", result)
    if recorded > launched / 2:
        raise Failed(f"{recorded} of {launched} kernels were recorded: nothing was held back", result)
    return result


def share_lost(steps):
    """Of the steps after the first ones, the share of time beyond the median step, which is one that nothing records: at
    most half of the time is. What is slower for another reason counts too."""
    settled = steps[round(SETTLED * len(steps)):]
    quiet = statistics.median(settled)
    return {"share": sum(settled) / (quiet * len(settled)) - 1, "share_at_first": sum(steps) / (quiet * len(steps)) - 1,
            "quiet_step_ns": quiet, "p99_step_ns": percentile(settled, 0.99), "seconds": sum(steps) / 1e9}


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
