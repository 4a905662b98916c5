"""What Galvatron's own parser says of strategy files: galvatron_validates.py SOURCES. Each line of standard input is
{"config": "...", "world": 8, "layers": 4, "expected": {...}}; each line of standard output is "" or what it objects.

Its reader, its checks and its argument classes are Galvatron's. Its packages are entered without what they import on GPUs alone.
"""
import importlib.util
import json
import pathlib
import sys
import tempfile
import types

import torch


def package(name, folder):
    made = types.ModuleType(name)
    made.__path__ = [str(folder)]
    sys.modules[name] = made
    return made


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def galvatron(sources):
    root = pathlib.Path(sources) / "galvatron"
    package("galvatron", root)
    package("galvatron.core", root / "core")
    package("galvatron.core.runtime", root / "core" / "runtime")
    scipy = package("scipy", root)  # of profiles, which are not read here
    scipy.optimize = types.ModuleType("scipy.optimize")
    scipy.optimize.curve_fit = None
    sys.modules["scipy.optimize"] = scipy.optimize
    utils = package("galvatron.utils", root / "utils")
    own = load("galvatron.utils.config_utils", root / "utils" / "config_utils.py")
    for name in ("config2strategy", "read_json_config", "str2array"):
        setattr(utils, name, getattr(own, name))
    state = types.ModuleType("galvatron.core.runtime.parallel_state")
    state.get_args = lambda: types.SimpleNamespace(local_rank=1)  # rank 0 prints
    sys.modules[state.__name__] = state
    return load("galvatron.core.runtime.hybrid_parallel_config", root / "core" / "runtime" / "hybrid_parallel_config.py")


def arguments(theirs, path, layers):
    schema = sys.modules["galvatron.core.runtime.args_schema"]
    parallel = schema.GalvatronParallelArgs(galvatron_config_path=path)
    model = schema.GalvatronModelArgs(num_layers=layers)
    return types.SimpleNamespace(local_rank=1, parallel=parallel, model=model, train=schema.CommonTrainArgs(), ckpt=schema.CommonCkptArgs())


def read(theirs, case, folder):
    path = folder / "galvatron.json"
    path.write_text(case["config"], encoding="utf-8")
    torch.distributed.get_world_size = lambda: case["world"]
    args = arguments(theirs, str(path), case["layers"])
    configs = theirs.get_hybrid_parallel_configs_api(args)
    theirs.check_hp_config(configs, [case["layers"]])
    parts = ["embed", *["gpt_dec"] * case["layers"], "cls"]
    whole = theirs.hp_config_whole_model(parts, configs, vocab_sdp=args.parallel.vocab_sdp, vocab_tp=args.parallel.vocab_tp,
                                         vocab_sp=args.parallel.vocab_sp, vocab_cp=args.parallel.vocab_cp)
    levels = {"ddp": "none", "zero2": "gradients", "zero3": "parameters"}
    columns = zip(whole["pp_ranks_whole"], whole["dp_sizes_whole"], whole["tp_sizes_whole"], whole["cp_sizes_whole"], whole["tp_consec_whole"],
                  whole["dp_types_whole"], whole["checkpoint_flags_whole"])
    rows = []
    for stage, dp, tp, cp, together, sharded, recompute in columns:
        level = "parameters" if sharded else levels[args.parallel.default_dp_type]
        rows.append([stage, dp, tp, cp, bool(together) or tp == 1 or dp * cp == 1, level if dp > 1 else "none", bool(recompute)])
    assert set(whole["sp_sizes_whole"]) == {1}, "no layer has Ulysses' sequence parallelism"
    return {"parts": rows, "batch": args.train.global_batch_size, "microbatches": theirs.get_chunks(args), "schedule": args.parallel.pipeline_type}


def objection(theirs, case, folder):
    try:
        said = read(theirs, case, folder)
        assert said == case["expected"], f"expected {case['expected']}, found {said}"
    except (AssertionError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main():
    theirs = galvatron(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(objection(theirs, json.loads(line), pathlib.Path(folder))), flush=True)


main()
