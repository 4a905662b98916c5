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
    """All parameters of model.json and those that a token meets, or why there is none. Tied parameters count once."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        done = subprocess.run([program, "model", "extract", "--hf", path, "--sequence", "2048", "--global-batch", "64"], check=False,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if done.returncode:
        return done.stderr.splitlines()[0], ABSENT
    model = json.loads(done.stdout)
    whole = sum(one["parameter_bytes"] for one in model["operators"])
    tied = sum(one["bytes"] * (len(one["operators"]) - 1) for one in model.get("tied_parameters", []))
    shapes = [one["shape"] for one in model["operators"] if "expert_parameter_bytes" in one["shape"]]
    resting = sum((shape["experts"] - shape["active_experts"]) * shape["expert_parameter_bytes"] for shape in shapes)
    width = ITEM_BYTES[model["dtype"]]
    return (whole - tied) // width, (whole - tied - resting) // width


def transformers_count():
    """A function that counts as transformers builds the model, and its name."""
    try:
        import torch
        import transformers
    except ImportError:
        return None, "transformers"

    def count(config):
        sizes = {name: value for name, value in config.items() if name != "model_type"}
        if config["model_type"] not in transformers.models.auto.configuration_auto.CONFIG_MAPPING:
            return ABSENT  # its code stands beside its weights
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(config["model_type"], **sizes))
        # DeepSeek-V3's routers have a buffer that published weights hold, and count.
        buffers = [one for name, one in model.named_buffers() if name.endswith("e_score_correction_bias")]
        return sum(one.numel() for one in [*model.parameters(), *buffers])

    return count, f"transformers {transformers.__version__}"


def first(config, *names):
    return next((config[name] for name in names if config.get(name) is not None), None)


def row(model, program, count):
    config = model["config"]
    hidden = first(config, "hidden_size", "n_embd")
    heads = first(config, "num_attention_heads", "n_head")
    said, active = extracted(program, config)
    built = count(config) if count else ABSENT
    equal = said == model["parameters"] and built in (ABSENT, said) and active == model.get("active", said)
    experts = first(config, "num_local_experts", "num_experts", "n_routed_experts")
    sizes = [config["model_type"], first(config, "num_hidden_layers", "n_layer"), hidden,
             first(config, "intermediate_size") or 4 * hidden, heads, config.get("num_key_value_heads", heads),
             config["vocab_size"], "yes" if config["tie_word_embeddings"] else "no", f"{config['num_experts_per_tok']} of {experts}" if experts else ""]
    numbers = [f"{one:,}" if isinstance(one, int) else one for one in (model["parameters"], said, built, active if experts else "")]
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
    print(f"{library} built each model from them on the meta device, but for those of which it has no class." if count else "")
    print("\"active\": those that a token meets, embedding and head included. DeepSeek-V3 is counted without the layer that predicts further tokens.\n")
    print("| model | family | layers | hidden | ffn | heads | kv heads | vocabulary | tied | experts | published | `model extract --hf` | "
          f"{library} | active | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |")
    print("\n".join(one[1] for one in rows))
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
