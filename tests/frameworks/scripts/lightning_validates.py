"""What Lightning's own Trainer and strategies make of words: each line of standard input is {"arguments": [...], "expected": {...}}; each line of
standard output is "" or what differs, or what is objected.

LightningCLI calls them so: a name from the registry, or a class with arguments. Its parser, jsonargparse, is not asked. DS_ACCELERATOR=cpu
"""
import inspect
import json
import sys


def nested(words):
    assert len(words) % 2 == 0
    values = {name: value for name, value in zip(words[::2], words[1::2])}
    own = "--trainer.strategy."
    strategy = {name[len(own):]: json.loads(value) if value[0] in "[tf0123456789" else value for name, value in values.items() if name.startswith(own)}
    trainer = {name[len("--trainer."):]: value for name, value in values.items() if name.startswith("--trainer.") and not name.startswith(own)}
    return trainer, strategy, int(values["--data.batch_size"])


def made(name, own, pl):
    if not own:
        entry = pl.strategies.StrategyRegistry[name]
        return entry["strategy"](**entry["init_params"])
    kind = getattr(pl.strategies, name)
    known = set(inspect.signature(kind.__init__).parameters)
    assert name == "DDPStrategy" or set(own) <= known, f"{name} has no argument {set(own) - known}"
    if "device_mesh" in own:
        own["device_mesh"] = tuple(own["device_mesh"])
    return kind(**own)


def meaning(words, pl):
    trainer, own, samples = nested(words)
    strategy = made(trainer["strategy"], own, pl)
    steps = pl.Trainer(accumulate_grad_batches=int(trainer["accumulate_grad_batches"]), accelerator="cpu", devices=1, logger=False,
                       enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).accumulate_grad_batches
    meant = {"samples": samples, "steps": steps, "kind": type(strategy).__name__, "sharding": None, "mesh": None, "stage": None, "offload": False,
             "bucket": None}
    if isinstance(strategy, pl.strategies.DeepSpeedStrategy):
        zero = strategy.config.get("zero_optimization", {"stage": 0})
        bucket = own.get("reduce_bucket_size")
        assert bucket is None or zero["reduce_bucket_size"] == bucket
        meant.update(stage=zero["stage"], offload=zero.get("offload_optimizer", {}).get("device") == "cpu", bucket=bucket)
    elif isinstance(strategy, pl.strategies.FSDPStrategy):
        meant.update(sharding=strategy.sharding_strategy.name, mesh=list(strategy.kwargs["device_mesh"]) if "device_mesh" in own else None)
    elif "bucket_cap_mb" in strategy._ddp_kwargs:
        meant["bucket"] = int(strategy._ddp_kwargs["bucket_cap_mb"] * 1024 * 1024)
    return meant


def main():
    said, sys.stdout = sys.stdout, sys.stderr
    import lightning.pytorch as pl

    for line in sys.stdin:
        case = json.loads(line)
        try:
            meant = meaning(case["arguments"], pl)
            answer = "" if meant == case["expected"] else f"expected {case['expected']}, found {meant}"
        except (ValueError, AssertionError, TypeError, KeyError, AttributeError) as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=said, flush=True)


main()
