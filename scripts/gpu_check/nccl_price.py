"""The section that holds trimtab's price of an all-reduce to NCCL's own median. Two ranks on one GPU sum by themselves, and in
most calls one of them is late on purpose. NCCL's profiler plugin, the agent, the coordinator's database and the tuner make the
price. What it is held to is worked out here, from a trace of the same calls: between the last rank's beginning and the first
one's end nobody waits."""
import collections
import json
import math
import statistics
import time

from . import arms
from .installation import ROOT
from .prediction import Job, cluster
from .sections import Failed, NotShown

PROGRAMS = ROOT / "scripts/gpu_check/price_programs.py"
BYTES = 1 << 22  # A power of two: the coordinator rounds others.
TRACED_S, MORE_S = 20, 4  # The ranks go on for longer than the trace.
LATE_S = 0.02
ATTACHED_S = 1.0  # After which the agent reads a new ring, and a trace has begun.
LEAST_CALLS = 30
READ = 0.01  # Statistics tell a median to 1 %.
TOO_WIDE = 0.2  # Of the median: a wider interval shows nothing.
MODEL = {"schema": "trimtab.model/1", "name": "nccl-price", "global_batch": 2,
         "operators": [{"name": "all", "kind": "layer", "parameter_bytes": BYTES}]}
PLAN = {"schema": "trimtab.plan/1", "model": MODEL["name"], "global_batch": 2, "microbatch": 2, "stages": [
    {"devices": [0, 1], "segments": [{"operators": [0, 1], "dp": 2, "tp": 1, "recompute": []}]}]}


def ranks_of_nccl(folder):
    """The command of a rank, which says in `folder` that it is ready and begins when told to."""
    apart = [f"{name}={value}" for name, value in arms.own_host("{rank}").items()]
    return ["env", *apart, "python3", PROGRAMS, "reduce", "--rank", "{rank}", "--bytes", BYTES, "--seconds", TRACED_S + MORE_S,
            "--late", LATE_S, "--folder", folder]


def nccl_price(installation, inherited, budget, *, ranks_of=ranks_of_nccl, traced_s=TRACED_S, late_ms=LATE_S * 1e3):
    job = Job(installation, inherited, budget, "nccl-price", 2, "cpu")
    try:
        job.profile(MODEL, ["python3", str(PROGRAMS), "answer", "--requests", "{requests}"], ("data_parallel",))
        calls = collectives_in(trained(job, ranks_of(job.folder), budget, traced_s))
    finally:
        job.close()  # What the coordinator has joined it stores at its end.
    if len(calls) < LEAST_CALLS:
        raise Failed(f"{len(calls)} calls of both ranks were traced, {LEAST_CALLS} are needed")
    job.keep_costs()
    nodes = calls[0]["nodes"]  # As NCCL counts them.
    job.file("cluster.json", cluster(nodes, 2 // nodes))
    priced = job.evaluated(PLAN)
    return judged(priced["stages"][0]["gradient_sync_ms"], calls, late_ms, events_ms(job.folder))


def trained(job, ranks, budget, traced_s):
    """The trace of the ranks' calls, as a document."""
    path = job.folder / "trace.json"
    with job.beside(*job.observing("all-reduces", ranks, **{"environment.TRIMTAB_NCCL_DETAIL": "full"})) as training:
        while not all((job.folder / f"ready-{rank}").exists() for rank in range(2)):
            if training.poll() is not None or budget.spent():
                raise Failed(f"the ranks did not begin: {job.told(training)[-600:]}")
            time.sleep(0.05)
        time.sleep(ATTACHED_S)
        with job.beside("trace", "--job", "all-reduces", "--seconds", traced_s, "-o", path, "--state", job.state) as tracing:
            time.sleep(ATTACHED_S)
            (job.folder / "begin").touch()
            job.told(tracing)
        job.told(training)
    return json.loads(path.read_text(encoding="utf-8"))


def collectives_in(trace):
    """Of each call of BYTES that both ranks have in it: its milliseconds without waiting, and each rank's own."""
    calls = collections.defaultdict(list)
    for one in trace["traceEvents"]:
        if one.get("cat") == "collective" and one["args"]["bytes"] == BYTES:
            calls[one["args"]["communicator"], one["args"]["sequence"]].append(one)
    return [{"transfer_ms": (min(one["ts"] + one["dur"] for one in both) - max(one["ts"] for one in both)) / 1e3,
             "own_ms": [one["dur"] / 1e3 for one in sorted(both, key=lambda one: one["args"]["rank"])],
             "nodes": both[0]["args"]["nodes"]} for both in calls.values() if len(both) == 2]


def events_ms(folder):
    """What the faster rank's CUDA events say of each call: who comes last waits for nobody. Empty where there are none."""
    paths = sorted(folder.glob("events-*.json"))
    return [min(both) for both in zip(*(json.loads(path.read_text(encoding="utf-8")) for path in paths))]


def judged(price_ms, calls, late_ms, by_events_ms):
    """The section's result."""
    transfers = sorted(one["transfer_ms"] for one in calls)
    median, (low, high) = statistics.median(transfers), interval_of_median(transfers)
    own = max(statistics.median(one["own_ms"][rank] for one in calls) for rank in range(2))
    result = {"price_ms": price_ms, "nccl_ms": {"value": median, "low": low * (1 - READ), "high": high * (1 + READ)},
              "calls": len(calls), "own_ms": own, "events_ms": statistics.median(by_events_ms) if by_events_ms else None}
    if own < median + late_ms / 2:
        raise NotShown(f"who is early takes {own:.2f} ms, and {late_ms:.0f} ms of waiting were planned: nobody waited", result)
    if not result["nccl_ms"]["low"] <= price_ms <= result["nccl_ms"]["high"]:
        raise Failed(f"an all-reduce is priced at {price_ms:.3f} ms, and NCCL takes {median:.3f} ms", result)
    if high - low > TOO_WIDE * median:
        raise NotShown(f"NCCL's own median is {low:.3f} to {high:.3f} ms", result)
    return result


def interval_of_median(ordered):
    """Between which values the median lies with 95 %, whatever the distribution is."""
    reach = 0.98 * math.sqrt(len(ordered))
    middle = (len(ordered) - 1) / 2
    return ordered[max(0, math.floor(middle - reach))], ordered[min(len(ordered) - 1, math.ceil(middle + reach))]
