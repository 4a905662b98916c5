"""Whether `trimtab model extract --hf` counts the parameters of published models exactly: prints a Markdown table.

    PYTHON bench/published/models.py [--program build/release/bin/trimtab] > bench/results/models.md

The models, their configurations and their published parameters are those of tests/schema/published_models.json. Where PYTHON has transformers
(that of `scripts/setup --frameworks`), its own classes count, too, on the meta device.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "schema" / "published_models.json"
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
ABSENT = "not asked"


def extracted(program, config):
    """What model.json says. Tied parameters count once."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        done = subprocess.run([program, "model", "extract", "--hf", path, "--sequence", "2048", "--global-batch", "64"], check=False,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode:
        return done.stderr.splitlines()[0]
    model = json.loads(done.stdout)
    whole = sum(one["parameter_bytes"] for one in model["operators"])
    tied = sum(one["bytes"] * (len(one["operators"]) - 1) for one in model.get("tied_parameters", []))
    return (whole - tied) // ITEM_BYTES[model["dtype"]]


def transformers_count():
    """A function that counts as transformers builds the model, and its name."""
    try:
        import torch
        import transformers
    except ImportError:
        return None, "transformers"

    def count(config):
        sizes = {name: value for name, value in config.items() if name != "model_type"}
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(config["model_type"], **sizes))
        return sum(one.numel() for one in model.parameters())

    return count, f"transformers {transformers.__version__}"


def first(config, *names):
    return next((config[name] for name in names if config.get(name) is not None), None)


def row(model, program, count):
    config = model["config"]
    hidden = first(config, "hidden_size", "n_embd")
    heads = first(config, "num_attention_heads", "n_head")
    said = extracted(program, config)
    built = count(config) if count else ABSENT
    equal = said == model["parameters"] and built in (ABSENT, said)
    sizes = [config["model_type"], first(config, "num_hidden_layers", "n_layer"), hidden,
             first(config, "intermediate_size") or 4 * hidden, heads, config.get("num_key_value_heads", heads),
             config["vocab_size"], "yes" if config["tie_word_embeddings"] else "no"]
    numbers = [f"{one:,}" if isinstance(one, int) else one for one in (model["parameters"], said, built)]
    return equal, "| " + " | ".join(map(str, [model["name"], *sizes, *numbers, "equal" if equal else "NOT EQUAL"])) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trimtab")
    program = parser.parse_args().program.resolve()
    count, library = transformers_count()
    rows = [row(model, program, count) for model in json.loads(MODELS.read_text(encoding="utf-8"))]
    equal = sum(one[0] for one in rows)
    print("# Parameters of published models\n")
    print(f"{equal} of {len(rows)} are exact. Made by `PYTHON bench/published/models.py`. The sizes are those of each model's published config.json")
    print("on huggingface.co, under the name in the first column, and so is the number of parameters. `model extract --hf` was given these sizes.")
    print(f"{library} built each model from them on the meta device.\n" if count else "")
    print(f"| model | family | layers | hidden | ffn | heads | kv heads | vocabulary | tied | published | `model extract --hf` | {library} | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- |")
    print("\n".join(one[1] for one in rows))
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
