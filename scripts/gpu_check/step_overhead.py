"""What collecting costs real training steps and NCCL's collectives, held to the default budget: within one process, by what
it leaves out (alternating.py). Fresh processes say what the first ten seconds may cost."""
import contextlib
import statistics

from . import alternating, arms, megatron_runs, taken_ring
from .installation import grown
from .overhead import collect
from .paired import median_ratio, paired
from .sections import Failed

# The budget is of every ten seconds: in shorter stays more might be spent.
THERE_S, AWAY_S = 10.0, 5.0
STEPS = {"seconds": 200, "warm_steps": 10}  # Twelve stays: of the first and the last nothing may come.
FIRST_S, FIRST_ROUNDS, FIRST_PAIRS, FIRST_LIMIT = 10, 9, 5, 0.05
RING_SLOTS = {"TRIMTAB_RING_SLOTS": str(1 << 20)}
LOOPS = {"sizes": [1 << 17, 1 << 19, 1 << 21, 1 << 22], "count": 10, "seconds": 92}
SAMPLED_S = 8  # NCCL's plugin times the first of so many seconds (collectors/nccl/src/detail.hpp).


def llama(trainer, installation, inherited, budget, way):
    return steps(trainer, installation, inherited, budget, "llama", {**STEPS, "way": way})


def of_megatron(trainer, installation, inherited, budget, source):
    """At microbatch 1, four to a step: the policy records whole steps, and these are short enough to be many."""
    source = megatron_runs.ready(source, inherited, budget)
    words = [*megatron_runs.MODEL, *megatron_runs.USUAL, "--global-batch-size", "4", "--micro-batch-size", "1"]
    return steps(trainer, installation, {**inherited, **megatron_runs.environment()}, budget, "megatron",
                 {**STEPS, "source": str(source), "arguments": words})


def steps(trainer, installation, inherited, budget, program, settings, there_s=THERE_S, away_s=AWAY_S):
    """The program's training steps, while an agent comes and goes."""
    path = installation.folder / "alternating.sock"
    agent = taken_ring.VisitingAgent(path, there_s, away_s)
    with contextlib.closing(agent):
        added = {**arms.environment(arms.GUARDED, installation.library, path), **RING_SLOTS}
        trainer.start({**arms.cleared(inherited), **added}, program, settings)
        while not trainer.answered(0.1) and not budget.spent():
            agent.tend()
        told = trainer.finish(budget)
    return judged_steps(told["steps"], agent.windows, agent.counts)


def judged_steps(taken, windows, counts):
    """The section's result, of steps (begin, end) and the windows (begin, end, why) in which kernels were not recorded."""
    kernels = counts[taken_ring.KERNEL] + counts[taken_ring.GRAPH]
    if kernels == 0:
        raise Failed("nothing was recorded", {"steps": len(taken), "windows": sorted({why for *_, why in windows})})
    away = [(begin, end) for begin, end, why in windows if why == "no_agent"]
    recorded = alternating.between([(begin, end) for begin, end, _ in windows], taken[0][0], taken[-1][1])
    result = {"costs": {"steps": {**alternating.cost(taken, recorded, away), "recorded": kernels}}, "limit": arms.LIMIT}
    return judged(result)


def judged(result, least=arms.LEAST_PAIRS):
    """The result; raises what its worst cost says: what is wrong before what is not shown."""
    worst = {}
    for name, one in result["costs"].items():
        try:
            alternating.judge(one["share"], result["limit"], least)
        except Failed as failed:
            worst.setdefault(type(failed), []).append(f"{name}: {failed}")
    for kind in sorted(worst, key=lambda kind: kind is not Failed):
        raise kind("; ".join(worst[kind]), result)
    return result


def first_seconds(trainer, installation, daemons, inherited, budget):
    """Pairs of fresh processes with Trimtab and without, eager: their first seconds, but for each one's first step."""
    settings = {"way": "eager", "seconds": FIRST_S, "warm_steps": 0}

    def run_arm(arm):
        environment = {**arms.cleared(inherited), **arms.environment(arm, installation.library, daemons.socket)}
        return trainer.run(environment, settings, budget, "llama")["steps"]

    rounds = collect((arms.BARE, arms.GUARDED), run_arm, budget, rounds=FIRST_ROUNDS)
    if not rounds:
        raise Failed("no whole round fitted into the budget")
    ratio = median_ratio(paired(rounds, arms.GUARDED, (arms.BARE,), mean_ns))
    share = {**ratio.document(), **{name: getattr(ratio, name) - 1 for name in ("value", "low", "high")}}
    result = {"costs": {"first ten seconds": {"share": share, "steps": len(rounds[0][arms.BARE]),
                                              "quiet_step_ns": mean_ns(rounds[0][arms.BARE])}}, "limit": FIRST_LIMIT}
    return judged(result, FIRST_PAIRS)


def mean_ns(taken):
    return statistics.fmean(end - begin for begin, end in taken)


def collectives(trainers, installation, daemons, inherited, budget, settings=LOOPS):
    """All-reduces of two ranks on one GPU, some of each size at a time, timed by the plugin in one second of eight."""
    store = installation.folder / "loops-store"
    store.unlink(missing_ok=True)
    before = daemons.settled(budget)
    for rank, trainer in enumerate(trainers):
        environment = {**arms.cleared(inherited), **arms.plugin(installation.library, daemons.socket), **arms.own_host(rank)}
        trainer.start(environment, "loops", {"rank": rank, "world_size": len(trainers), "store": str(store), **settings})
    groups = [trainer.finish(budget)["groups"] for trainer in trainers][0]
    recorded = grown(before, daemons.settled(budget), "trimtab_agent_collectives_total")
    launched = sum(map(len, groups.values())) * settings["count"] * len(trainers)
    return judged_collectives(groups, recorded, launched)


def judged_collectives(groups, recorded, launched):
    """The section's result, of the groups' (begin, end) by bytes."""
    counts = {"launched": launched, "recorded": recorded}
    if not 0 < recorded < launched / 2:
        raise Failed(f"{recorded} of {launched} collectives were recorded, some eighth of them is needed", {"collectives": counts})
    costs = {}
    for size, taken in groups.items():
        first, last = taken[0][0] // 10**9, taken[-1][1] // 10**9
        spans = [(second * 10**9, (second + 1) * 10**9) for second in range(first, last + 1) if second % SAMPLED_S == 0]
        costs[f"{int(size) >> 10} KiB"] = alternating.cost(taken, spans)
    return judged({"costs": costs, "limit": arms.LIMIT, "collectives": counts})
