"""The sections that train under plans: PyTorch's FSDP as a plan was exported to it, and the reference trainer with
states and activations on the host."""
import json
import pathlib
import tomllib

from . import arms, child
from .installation import ROOT
from .sections import Failed

CLIENT = ROOT / "client" / "python"
STEPS, BATCH, LAYERS = 3, 8, 4  # Of FSDP; the layers are those of plan_programs.py.
OFFLOAD_STEPS, OFFLOAD_MICROBATCH = 10, 8
CLOSE = 1e-4  # Relative, of losses whose sums have another order.


def fsdp(trainers, installation, inherited, budget, *, device="cuda", target="fsdp"):
    """One rank, whose FSDP shards nothing, and two on the same GPU, whose FSDP does: losses as of plain PyTorch."""
    environment = arms.cleared(inherited)
    result = {"worlds": {}}
    model = model_file(installation, environment, budget)
    for world_size in range(1, len(trainers) + 1):
        configuration = export(installation, model, world_size, target, environment, budget)
        told = train(trainers[:world_size], installation, environment, configuration, device, budget)
        result["worlds"][str(world_size)] = told[0]
        worst = max(difference(one["losses"], one["plain_losses"]) for one in told)
        result["worlds"][str(world_size)]["loss_difference"] = worst
        if worst > CLOSE:
            raise Failed(f"{world_size} ranks: losses are {worst:.1e} from those of plain PyTorch, {CLOSE:.0e} are allowed", result)
    return result


def model_file(installation, environment, budget):
    """model.json of plan_programs.py's module."""
    path = installation.folder / "fsdp-model.json"
    child.run(["python3", "-m", "trimtab.module_model", "plan_programs:layers", "--global-batch", BATCH, "--name", "gpu-check",
               "--out", path], budget, environment={**environment, "PYTHONPATH": f"{CLIENT}:{pathlib.Path(__file__).parent}"})
    return path


def fsdp_plan(world_size, target):
    """All of FSDP's knobs: parameters over all ranks, two microbatches, a layer recomputed."""
    segment = {"operators": [0, LAYERS], "dp": world_size, "tp": 1, "recompute": [[1, 2]]}
    if world_size > 1:
        segment["sharded"] = "parameters" if target == "fsdp" else "optimizer"
    return {"schema": "trimtab.plan/1", "model": "gpu-check", "global_batch": BATCH, "microbatch": BATCH // 2,
            "stages": [{"devices": list(range(world_size)), "segments": [segment]}]}


def export(installation, model, world_size, target, environment, budget):
    """The file that trimtab.parallel reads."""
    plan, out = (installation.folder / f"fsdp-{world_size}{end}" for end in (".json", "-exported.json"))
    plan.write_text(json.dumps(fsdp_plan(world_size, target)), encoding="utf-8")
    child.run([installation.program("trimtab"), "plan", "export", plan, "--to", target, "--model", model, "--out", out], budget,
              environment=environment)
    return out


def train(trainers, installation, environment, configuration, device, budget):
    """What each rank tells of STEPS steps."""
    store = installation.folder / f"fsdp-store-{len(trainers)}"
    store.unlink(missing_ok=True)
    for rank, trainer in enumerate(trainers):
        apart = arms.own_host(rank) if len(trainers) > 1 else {}
        trainer.start({**environment, **apart, "TRIMTAB": "0"}, "planned", {
            "rank": rank, "world_size": len(trainers), "store": str(store), "steps": STEPS, "device": device,
            "client": str(CLIENT), "configuration": str(configuration)})
    return [trainer.finish(budget) for trainer in trainers]


def difference(losses, others):
    """The largest, relative; one that is no number is as far as can be."""
    pairs = [abs(one / other - 1) for one, other in zip(losses, others, strict=True)]
    return max((pair if pair == pair else float("inf")) for pair in pairs)


def offload(installation, inherited, budget, *, device="cuda", config=ROOT / "examples/gpt-gpu/gpt.toml"):
    """Everything recomputed, on the device and then with inputs and optimizer states on the host."""
    model = tomllib.loads(pathlib.Path(config).read_text(encoding="utf-8"))
    runs = {}
    for arm in ("device", "host"):
        runs[arm] = trained(installation, arms.cleared(inherited), model, pathlib.Path(config), arm, device, budget)
    apart = difference(runs["host"]["losses"], runs["device"]["losses"])
    result = {"offload": runs, "loss_difference": apart}
    if apart > CLOSE:
        raise Failed(f"losses with states on the host are {apart:.1e} from those without, {CLOSE:.0e} are allowed", result)
    if device == "cuda" and runs["host"]["peak_bytes"] >= runs["device"]["peak_bytes"]:
        raise Failed(f"states on the host took {runs['host']['peak_bytes']} bytes of the device, without "
                     f"{runs['device']['peak_bytes']}", result)
    return result


def offload_plan(model, arm):
    operators = 2 * model["layers"] + 2
    inner = [[1, operators - 1]]  # Tokens are few, and the head's logits are not an input.
    segment = {"operators": [0, operators], "dp": 1, "tp": 1, "recompute": inner}
    if arm == "host":
        segment["switches"] = {"offload_hidden": inner, "offload_optimizer": True}
    return {"schema": "trimtab.plan/1", "model": model["name"], "global_batch": model["global_batch"],
            "microbatch": min(OFFLOAD_MICROBATCH, model["global_batch"]),
            "stages": [{"devices": [0], "segments": [segment]}]}


def trained(installation, environment, model, config, arm, device, budget):
    """Losses, the largest peak and the median step of the reference trainer."""
    folder = installation.folder / f"offload-{arm}"
    folder.mkdir(exist_ok=True)
    plan, log = folder / "plan.json", folder / "steps.jsonl"
    plan.write_text(json.dumps(offload_plan(model, arm)), encoding="utf-8")
    log.unlink(missing_ok=True)
    child.run(["python3", ROOT / "trainer" / "train.py", "--config", config, "--plan", plan, "--rank", "0", "--world-size", "1",
               "--device", device, "--rendezvous", f"file://{folder}/rendezvous", "--steps", OFFLOAD_STEPS, "--log", log],
              budget, environment={**environment, "TRIMTAB": "0"}, directory=ROOT)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    if [line["step"] for line in lines] != list(range(OFFLOAD_STEPS)):
        raise Failed(f"the trainer logged steps {[line['step'] for line in lines]}, {OFFLOAD_STEPS} are needed")
    walls = sorted(line["wall_ns"] for line in lines)
    return {"losses": [line["loss"] for line in lines], "peak_bytes": max(max(line["peak_bytes"]) for line in lines),
            "step_ms": walls[len(walls) // 2] / 1e6}
