"""The section of live changes between plans: two ranks of the reference trainer on one GPU, from sharded states to memory
switches, to other ones, to a pipeline and back, beside one process that never changes."""
import json
import pathlib
import tomllib

from . import arms, child
from .installation import ROOT
from .plan_checks import CLOSE, difference
from .sections import Failed

STEPS, RANKS, MICROBATCHES = 2, 2, 2  # Steps of each plan.
PROGRAM = ROOT / "tests" / "trainer" / "train_plans.py"


def switches(installation, inherited, budget, *, device="cuda", config=ROOT / "examples/gpt-gpu/gpt.toml"):
    """Every memory switch, on and off again while the job runs: losses as of one process, and memory that it saves."""
    config = pathlib.Path(config)
    model = tomllib.loads(config.read_text(encoding="utf-8"))
    environment, plans = arms.cleared(inherited), live_plans(model)
    alone = trained(installation, environment, config, "alone", [plan_of(model, [whole(model, 1)])] * len(plans), 1, device, budget)
    live = trained(installation, environment, config, "live", list(plans.values()), RANKS, device, budget)
    apart = difference([line["loss"] for line in live], [line["loss"] for line in alone])
    result = {"switches": {name: arm_of(live, number) for number, name in enumerate(plans)}, "loss_difference": apart}
    if apart > CLOSE:
        raise Failed(f"losses with live changes are {apart:.1e} from those of one process, {CLOSE:.0e} are allowed", result)
    if device == "cuda":
        check_memory(result)
    return result


def check_memory(result):
    """Each of the first three plans has less on the device than the one before."""
    names = list(result["switches"])[:3]
    peaks = [result["switches"][name]["peak_bytes"] for name in names]
    for (before, more), (after, less) in zip(zip(names, peaks), list(zip(names, peaks))[1:]):
        if less >= more:
            raise Failed(f"{after} took {less} bytes of the device, {before} {more}", result)


def arm_of(lines, number):
    """Of the plan: the largest allocation of any rank and the step after its first."""
    own = [line for line in lines if line["plan"] == number]
    return {"peak_bytes": max(max(line["allocated"]) for line in own), "step_ms": own[-1]["wall_ns"] / 1e6}


def live_plans(model):
    """name -> plan, in the order in which the job goes through them."""
    operators = 2 * model["layers"] + 2
    inner, every = [[1, operators - 1]], [[0, operators]]
    host = {"offload_optimizer": True, "offload_hidden": inner, "partition_parameters": every, "segment_sync": every}
    lazy = {"lazy_prefetch": every, "economical_forward": every, "economical_backward": every}
    half = operators // 2
    first, second = [[0, half]], [[half, operators]]
    stages = [{"operators": part, "dp": 1, "recompute": [part], "switches": {
        "offload_optimizer": True, "partition_parameters": [part], "lazy_prefetch": [part], "economical_backward": [part]}}
        for part in (*first, *second)]
    sharded = plan_of(model, [whole(model, RANKS, sharded="parameters")])
    return {
        "sharded": sharded,
        "released": plan_of(model, [whole(model, RANKS, sharded="gradients", recompute=inner, switches=host)]),
        "on the host": plan_of(model, [whole(model, RANKS, sharded="gradients", recompute=inner, switches={**host, **lazy})]),
        "pipeline": plan_of(model, stages, devices=[[0], [1]]),
        "sharded again": sharded,
    }


def whole(model, dp, **fields):
    return {"operators": [0, 2 * model["layers"] + 2], "dp": dp, **fields}


def plan_of(model, segments, devices=None):
    """A stage for each segment."""
    devices = devices or [list(range(segments[0]["dp"]))]
    return {"schema": "trimtab.plan/1", "model": model["name"], "global_batch": model["global_batch"],
            "microbatch": model["global_batch"] // MICROBATCHES,
            "stages": [{"devices": own, "segments": [segment]} for own, segment in zip(devices, segments, strict=True)]}


def trained(installation, environment, config, name, plans, ranks, device, budget):
    """The lines of STEPS steps under each of the plans, one after the other."""
    folder = installation.folder / f"switches-{name}"
    folder.mkdir(exist_ok=True)
    path, log = folder / "plans.json", folder / "steps.jsonl"
    path.write_text(json.dumps(plans), encoding="utf-8")
    log.unlink(missing_ok=True)
    programs = []
    for rank in range(ranks):
        words = ["python3", PROGRAM, "--config", config, "--plan", path, "--rank", rank, "--local-rank", 0, "--world-size", ranks,
                 "--device", device, "--rendezvous", f"file://{folder}/rendezvous", "--steps", STEPS, "--switch", "--log", log]
        apart = arms.own_host(rank) if ranks > 1 else {}
        programs.append((words, {**environment, **apart, "TRIMTAB": "0"}))
    child.run_together(programs, budget, directory=ROOT)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    wanted = [(number, step) for number in range(len(plans)) for step in range(STEPS * number, STEPS * (number + 1))]
    if [(line["plan"], line["step"]) for line in lines] != wanted:
        raise Failed(f"the trainer logged steps {[(line['plan'], line['step']) for line in lines]}, {wanted} are needed")
    return lines
