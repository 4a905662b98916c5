"""Times the operators of arguments.txt on the GPUs: the reference trainer's modules of the same sizes stand for
Megatron-LM's. They are other kernels: predictions begin with these costs, and the trials correct them.

    benchmark.py --arguments FILE --requests FILE --rank R --local-rank L --world-size N --rendezvous URL
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

TRAINER = pathlib.Path(__file__).resolve().parents[2] / "trainer" / "benchmark.py"
KINDS = {"embedding": "embedding", "attention": "attention", "mlp": "feedforward", "head": "head"}  # Megatron's: the trainer's
PARAMETER_BYTES = {"bfloat16": 2, "float32": 4}  # The trainer's have four whatever it computes in.


def sizes(text):
    """{"num-layers": "24", ..., "bf16": ""} of Megatron-LM's arguments."""
    found, name = {}, None
    for line in text.splitlines():
        for word in line.partition("#")[0].split():
            if word.startswith("--"):
                name = word[2:]
                found[name] = ""
            elif name:
                found[name] = word
    return found


def config(given):
    """The reference trainer's model file of these sizes; one layer is as good as all."""
    vocabulary = -(-int(given["vocab-size"]) // 128) * 128
    values = {"layers": 1, "hidden": given["hidden-size"], "heads": given["num-attention-heads"],
              "sequence": given["seq-length"], "vocabulary": vocabulary, "global_batch": given["global-batch-size"]}
    return (f'name = "megatron"\nprecision = "{precision(given)}"\n'
            + "".join(f"{name} = {value}\n" for name, value in values.items()))


def precision(given):
    return "bfloat16" if "bf16" in given else "float32"


def kind_of(cost_key):
    return KINDS.get(cost_key.partition("-")[0])


def asked(document, keys):
    """The requests with the trainer's cost keys, which `keys` gives by kind."""
    items = [{**item, "cost_key": keys.get(kind_of(item["cost_key"]), item["cost_key"])} if "cost_key" in item else item
             for item in document["items"]]
    return {**document, "items": items}


def answered(line, document, given):
    """The trainer's answer to an item, in Megatron's cost keys."""
    try:
        answer = json.loads(line)
        cost, item = answer["cost"], document["items"][answer["item"]]
    except (ValueError, KeyError, TypeError):
        return line
    if cost["kind"].startswith("operator_") or cost["kind"] == "optimizer_step":
        cost["subject"] = item["cost_key"]
    if cost["kind"] == "operator_parameter_bytes":
        answer["values"] = [value * PARAMETER_BYTES[precision(given)] // 4 for value in answer["values"]]
    return json.dumps(answer) + "\n"


def trainer_keys(path):
    sys.path.insert(0, str(TRAINER.parent))
    import config as model_config
    from model import operator_specs

    return {spec.kind: spec.cost_key for spec in operator_specs(model_config.load(path))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arguments", required=True)
    parser.add_argument("--requests", required=True)
    options, rest = parser.parse_known_args()
    given = sizes(pathlib.Path(options.arguments).read_text(encoding="utf-8"))
    document = json.loads(pathlib.Path(options.requests).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="megatron-benchmark-") as folder:
        model, requests = pathlib.Path(folder) / "model.toml", pathlib.Path(folder) / "requests.json"
        model.write_text(config(given), encoding="utf-8")
        requests.write_text(json.dumps(asked(document, trainer_keys(model))), encoding="utf-8")
        words = [sys.executable, str(TRAINER), "--config", str(model), "--requests", str(requests), *rest]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as trainer:
            for line in trainer.stdout:
                print(answered(line, document, given), end="", flush=True)
        return trainer.returncode


if __name__ == "__main__":
    sys.exit(main())
