"""The sections that are right or wrong rather than fast or slow."""
import contextlib
import json
import statistics
import subprocess

from . import arms, child, taken_ring
from .installation import ROOT, grown
from .overhead import chains_in
from .sections import Failed, Skipped

MODEL = "examples/gpt-gpu/gpt.toml"
JOB = "examples/gpt-gpu/job.toml"
NOT_LOST = ("trimtab_agent_records_dropped_total", "trimtab_agent_records_malformed_total",
            "trimtab_agent_records_skipped_total")
COLLECTIVES = 50
TRACES = 2
RETURN_NS = 1_500_000_000  # From a trace's end: by then kernels are recorded again, a look a second.
ALIKE = 1.25  # Of median durations of the same kernels, and of how many of them a second.


def records(installation, daemons, inherited, budget):
    """As many kernels and graph launches told of as were launched, and nothing lost."""
    counts, problems = {}, []
    for name, words in (("kernels", ()), ("graphs", ("--graph",))):
        added = arms.environment("kernels only", installation.library, daemons.socket)
        environment = {**arms.cleared(inherited), **installation.bench_environment(added)}
        before = daemons.settled(budget)
        output = child.run([installation.bench, "chain", "--kernel-us", "5", "--kernels", "500", "--steps", "40", *words],
                           budget, environment=environment)
        after = daemons.settled(budget)
        launched = launched_in(output)
        seen = grown(before, after, "trimtab_agent_kernels_total")
        lost = {metric: grown(before, after, metric) for metric in NOT_LOST}
        counts[name] = {"launched": launched, "recorded": seen, "lost": lost}
        if seen != launched or any(lost.values()):
            problems.append(f"{name}: {seen} of {launched} recorded, lost {sum(lost.values())}")
    if problems:
        raise Failed("; ".join(problems), counts)
    return counts


def launched_in(output):
    """Kernels that were launched one by one, and graph launches: a graph in the cheap mode is one record."""
    total = 0
    for one in chains_in(output).values():
        first_launch = 1
        total += one["graph_launches"] + first_launch if one["graph"] else one["kernels"]
    return total


def overlap(installation, inherited, out, budget):
    """The table of slowdowns, for the shapes of the example's model."""
    environment = arms.cleared(inherited)
    model = child.run(["python3", "trainer/describe.py", "--config", MODEL], budget, environment=environment, directory=ROOT)
    path = installation.folder / "model.json"
    path.write_text(model, encoding="utf-8")
    output = child.run([installation.bench, "overlap", "--model", path, "--samples", "8", "--dtype", "bfloat16",
                        "--classes", "gemm,attention", "--table", out / "overlap.txt"], budget, environment=environment)
    rows = [json.loads(line)["overlap"] for line in output.splitlines() if line.startswith('{"overlap"')]
    measured = [row for row in rows if "error" not in row]
    if not measured:
        raise Failed(f"none of {len(rows)} pairs could be measured: {rows[0]['error'] if rows else 'no output'}",
                     {"rows": rows})
    return {"rows": rows, "measured": len(measured), "not_measured_here": ["NVLink", "NVLS", "waiting for other ranks"]}


def profiler(trainer, installation, inherited, budget):
    """torch.profiler sees as much with Trimtab in the process as without, from its first trace on; and Trimtab the same
    kernels before the traces, between them and after."""
    settings = {"seconds": 2.5, "profiled_steps": 5, "traces": TRACES}
    bare = trainer.run(arms.cleared(inherited), settings, budget, "profiled")["events_on_device"]
    path = installation.folder / "profiler.sock"
    listener = taken_ring.Listener(path)
    try:
        added = arms.environment("full", installation.library, path)
        trainer.start({**arms.cleared(inherited), **added, "TRIMTAB_RING_SLOTS": str(1 << 20)}, "profiled", settings)
        with contextlib.closing(taken(listener, trainer, budget)) as ring:
            beside = trainer.finish(budget)
            records = ring.drained(taken_ring.KERNEL, taken_ring.WINDOW)
    finally:
        listener.close()
    kernels, windows = ([one for one in records if one[0] == kind] for kind in (taken_ring.KERNEL, taken_ring.WINDOW))
    return told_of_both(bare, beside, kernels, windows)


def taken(listener, trainer, budget):
    try:
        return listener.take(budget.left())
    except TimeoutError:
        trainer.close()  # Its late answer must not be taken for the next run's.
        raise Failed("no record ring came from the process with PyTorch") from None


def told_of_both(bare, beside, kernels, windows):
    """The section's result; raises Failed where either saw less than it should."""
    ours = [seen_between(kernels, steps, begin + (RETURN_NS if number else 0), end)
            for number, (begin, end, steps) in enumerate(beside["without_profiler"])]
    result = {"events_on_device": {arms.BARE: bare, "full": beside["events_on_device"]}, "recorded": ours,
              "windows": [{"why": name, "ms": (end - begin) / 1e6} for _, begin, end, name in windows]}
    if min(bare) == 0:
        raise Skipped("torch.profiler sees no kernels here even without Trimtab")
    if min(beside["events_on_device"]) < 0.99 * max(bare):
        raise Failed(f"torch.profiler saw {beside['events_on_device']} of {max(bare)} events on the device", result)
    if not alike(ours, "median_ns") or not alike(ours, "kernels_a_step"):
        raise Failed(f"before, between and after the traces Trimtab recorded {ours}", result)
    return result


def alike(stretches, name):
    values = [one[name] for one in stretches]
    return min(values) > 0 and max(values) <= ALIKE * min(values)


def seen_between(kernels, steps, begin_ns, end_ns):
    """Of the kernels in it; `steps`: when each step of the stretch ended."""
    durations = [end - begin for _, begin, end, _ in kernels if begin_ns <= begin and end <= end_ns]
    taken_steps = sum(1 for ended in steps if begin_ns <= ended <= end_ns)
    return {"kernels": len(durations), "median_ns": statistics.median(durations) if durations else 0,
            "kernels_a_step": len(durations) / max(1, taken_steps)}


def two_processes(trainers, installation, daemons, inherited, budget):
    """Two ranks on one GPU that NCCL takes for two hosts: every collective told of by both."""
    before = daemons.settled(budget)
    store = installation.folder / "nccl-store"
    store.unlink(missing_ok=True)
    for rank, trainer in enumerate(trainers):
        environment = {**arms.cleared(inherited), **arms.environment("full + KernelCh", installation.library, daemons.socket),
                       **arms.own_host(rank)}
        trainer.start(environment, "collectives", {"rank": rank, "world_size": len(trainers), "store": str(store),
                                                   "elements": 1 << 20, "count": COLLECTIVES})
    results = [trainer.finish(budget) for trainer in trainers]
    after = daemons.settled(budget)
    result = {"launched": sum(one["collectives"] for one in results),
              "recorded": grown(before, after, "trimtab_agent_collectives_total"),
              "wrong_elements": sum(one["wrong_elements"] for one in results)}
    if result["wrong_elements"] or result["recorded"] != result["launched"]:
        raise Failed(f"{result['recorded']} of {result['launched']} collectives recorded, {result['wrong_elements']} "
                     "wrong elements", result)
    return result


def tune(installation, inherited, out, budget):
    """The whole loop on the reference trainer: which microbatch, what to recompute."""
    trimtab, state = installation.program("trimtab"), installation.folder / "tune-state"
    try:
        child.run([trimtab, "tune", "--job", JOB, "--state", state, "--out", out], budget,
                  environment=arms.cleared(inherited), directory=ROOT)
    finally:  # A run that was cut off leaves its daemons.
        subprocess.run([trimtab, "down", "--state", state], capture_output=True, timeout=30, check=False)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    wanted = ("initial", "adopted", "speedup", "loss", "prediction_error", "profiled", "seconds")
    return {name: report.get(name) for name in wanted}
