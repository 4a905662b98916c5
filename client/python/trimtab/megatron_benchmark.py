"""Times the operators of a Megatron-LM model, whose sizes their cost keys say: the reference trainer's modules of the same sizes
stand for Megatron-LM's. They are other kernels: predictions begin with these costs, and the trials correct them.

    python3 -m trimtab.megatron_benchmark --requests FILE --rank R --local-rank L --world-size N --rendezvous URL [--device cuda]

Needs Python 3.11, PyTorch and the folder reference_trainer of this package (in a checkout: trainer).
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

KINDS = {"embedding": "embedding", "attention": "attention", "mlp": "feedforward", "head": "head"}  # Megatron's: the trainer's
PARAMETER_BYTES = {"bfloat16": 2, "float32": 4}  # The trainer's have four whatever it computes in.
SIZES = {"h": "hidden", "t": "sequence", "a": "heads", "v": "vocabulary"}  # Of a cost key: "attention-h2048-t2048-a16-g16-c128".
# What nothing is asked about may be anything.
USUAL = {"hidden": 64, "sequence": 64, "heads": 1, "vocabulary": 128}


def trainer():
    """The folder of the reference trainer; None: it is not there."""
    here = pathlib.Path(__file__).resolve().parent
    places = (here / "reference_trainer", here.parents[2] / "trainer")
    return next((place for place in places if (place / "benchmark.py").is_file()), None)


def sizes(document):
    found = dict(USUAL)
    for key in (item.get("cost_key", "") for item in document["items"]):
        for part in key.split("-")[1:] if kind_of(key) else ():
            match = re.fullmatch(r"([htav])([1-9]\d*)", part)
            if match:
                found[SIZES[match[1]]] = int(match[2])
    return found


def precision(document):
    """Half precision stands for all narrower types."""
    types = {item.get("dtype", "") for item in document["items"]} - {""}
    return "float32" if types == {"float32"} else "bfloat16"


def config(document):
    """The reference trainer's model file of these sizes; one layer is as good as all."""
    batch = max((int(item.get("samples", 1)) for item in document["items"]), default=1)
    values = {"layers": 1, **sizes(document), "global_batch": batch}
    return (f'name = "megatron"\nprecision = "{precision(document)}"\n'
            + "".join(f"{name} = {value}\n" for name, value in values.items()))


def kind_of(cost_key):
    return KINDS.get(cost_key.partition("-")[0])


def asked(document, keys):
    """The requests with the trainer's cost keys, which `keys` gives by kind."""
    items = [{**item, "cost_key": keys.get(kind_of(item["cost_key"]), item["cost_key"])} if "cost_key" in item else item
             for item in document["items"]]
    return {**document, "items": items}


def answered(line, document):
    """The trainer's answer to an item, in Megatron's cost keys."""
    try:
        answer = json.loads(line)
        cost, item = answer["cost"], document["items"][answer["item"]]
    except (ValueError, KeyError, TypeError):
        return line
    if cost["kind"].startswith("operator_") or cost["kind"] == "optimizer_step":
        cost["subject"] = item["cost_key"]
    if cost["kind"] == "operator_parameter_bytes":
        answer["values"] = [value * PARAMETER_BYTES[precision(document)] // 4 for value in answer["values"]]
    return json.dumps(answer) + "\n"


def trainer_keys(folder, path):
    sys.path.insert(0, str(folder))
    import config as model_config
    from model import operator_specs

    return {spec.kind: spec.cost_key for spec in operator_specs(model_config.load(path))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", required=True)
    options, rest = parser.parse_known_args()
    folder = trainer()
    if folder is None:
        return f"trimtab.megatron_benchmark: the folder reference_trainer is missing beside {__file__}; install Trimtab again"
    if sys.version_info < (3, 11):
        return f"trimtab.megatron_benchmark: needs Python 3.11 or later, and {sys.executable} is {sys.version.split()[0]}"
    document = json.loads(pathlib.Path(options.requests).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="megatron-benchmark-") as place:
        model, requests = pathlib.Path(place) / "model.toml", pathlib.Path(place) / "requests.json"
        model.write_text(config(document), encoding="utf-8")
        requests.write_text(json.dumps(asked(document, trainer_keys(folder, model))), encoding="utf-8")
        words = [sys.executable, str(folder / "benchmark.py"), "--config", str(model), "--requests", str(requests), *rest]
        paths = [str(pathlib.Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as benchmark:
            for line in benchmark.stdout:
                print(answered(line, document), end="", flush=True)
        return benchmark.returncode


if __name__ == "__main__":
    sys.exit(main())
