"""model.json from Megatron-LM's arguments and from a PyTorch module, against the bytes of the tensors themselves."""
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

import gpt_module
from program import PROGRAM, ROOT, ProgramTest, run, seed

sys.path.insert(0, str(ROOT / "client" / "python"))

from trimtab import module_model  # noqa: E402

PYTHON = "/usr/bin/python3"


def measured_bytes(layers, width):
    """Of each layer, from the parameters' own sizes, as if they were of `width` bytes an element."""
    return [sum(parameter.numel() for parameter in layer[-1].parameters()) * width for layer in layers]


def random_shape(generator):
    """(shape for gpt_module, Megatron-LM's arguments for the same model)"""
    heads = generator.choice([2, 4])
    groups = generator.choice([1, 2, heads])
    channels = generator.choice([4, 8])
    hidden = heads * channels if generator.random() < 0.6 else 24
    words = generator.randint(30, 200)
    multiple, ranks = generator.choice([8, 128]), generator.choice([1, 2])
    unit = multiple * ranks
    shape = {"layers": generator.randint(1, 3), "hidden": hidden, "heads": heads, "groups": groups,
             "channels": channels, "vocabulary": (words + unit - 1) // unit * unit, "sequence": 8,
             "gated": generator.random() < 0.5, "rms": generator.random() < 0.5, "bias": generator.random() < 0.5,
             "query_norm": generator.random() < 0.3, "tied": generator.random() < 0.5,
             "positions": generator.choice([0, 16])}
    shape["qkv_bias"] = shape["bias"] or generator.random() < 0.3
    arguments = ["--num-layers", shape["layers"], "--hidden-size", hidden, "--num-attention-heads", heads,
                 "--kv-channels", channels, "--seq-length", 8, "--global-batch-size", 4, "--vocab-size", words,
                 "--make-vocab-size-divisible-by", multiple, "--tensor-model-parallel-size", ranks,
                 "--lr", "1e-4", "--normalization", "RMSNorm" if shape["rms"] else "LayerNorm"]
    shape["ffn"] = int((4 * hidden * 2 / 3) / 64) * 64 if shape["gated"] else 4 * hidden
    if generator.random() < 0.5 or shape["ffn"] == 0:
        shape["ffn"] = generator.choice([32, 96])
        arguments += ["--ffn-hidden-size", shape["ffn"]]
    if shape["positions"]:
        arguments += ["--max-position-embeddings", shape["positions"]]
    else:
        arguments += ["--position-embedding-type", "rope"]
    if groups != heads:
        arguments += ["--group-query-attention", "--num-query-groups", groups]
    flags = {"--swiglu": shape["gated"], "--disable-bias-linear": not shape["bias"],
             "--add-qkv-bias": shape["qkv_bias"] and not shape["bias"], "--qk-layernorm": shape["query_norm"],
             "--untie-embeddings-and-output-weights": not shape["tied"]}
    return shape, [str(word) for word in arguments] + [flag for flag, on in flags.items() if on]


class FromMegatron(ProgramTest):
    def test_parameters_of_random_models(self):
        base = seed()
        for number in range(20):
            generator = random.Random(f"{base}/{number}")
            shape, arguments = random_shape(generator)
            precision = generator.choice([[], ["--bf16"], ["--fp16"]])
            width = 2 if precision else 4
            done = run("model", "extract", "--", *arguments, *precision)
            about = f"model {number} of seed {base}: {shape} {arguments} {done.stderr}"
            self.assertEqual(done.returncode, 0, about)
            model = json.loads(done.stdout)
            layers = gpt_module.layers_of(shape)
            self.assertEqual([op["parameter_bytes"] for op in model["operators"]], measured_bytes(layers, width), about)
            keys_and_values = width * shape["sequence"] * 2 * shape["groups"] * shape["channels"]
            self.assertEqual({op.get("key_value_bytes", 0) for op in model["operators"]}, {0, keys_and_values}, about)
            shared = width * shape["vocabulary"] * shape["hidden"]
            tied = [{"operators": [0, len(layers) - 1], "bytes": shared}] if shape["tied"] else []
            self.assertEqual(model.get("tied_parameters", []), tied, about)
            self.assertEqual(done.stderr, "", about)

    def test_a_known_model(self):
        """GPT-3's 175 billion: 12 h² for each layer and the embedding."""
        done = run("model", "extract", "--", *("--num-layers 96 --hidden-size 12288 --num-attention-heads 96 "
                   "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --global-batch-size 1536 "
                   "--fp16").split())
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(done.stdout)
        tied = sum(entry["bytes"] for entry in model["tied_parameters"])
        count = (sum(op["parameter_bytes"] for op in model["operators"]) - tied) / 2
        self.assertAlmostEqual(count / 175e9, 1, delta=0.01)

    def test_a_file_as_a_shell_has_it(self):
        path = self.folder / "arguments.sh"
        path.write_text('# the model\n--num-layers 2 --hidden-size "16" \\\n --num-attention-heads 2 --seq-length 8 '
                        "--max-position-embeddings 8\n--vocab-size 100 --global-batch-size '4'\n", encoding="utf-8")
        done = run("model", "extract", "--megatron", path, "--name", "tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["name"], "tiny")

    def test_experts_are_read_whole_and_no_plan_is_made(self):
        """Mixtral-8x7B by Megatron-LM's arguments has as many parameters as by its config.json."""
        words = ("--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 "
                 "--seq-length 4096 --global-batch-size 64 --vocab-size 32000 --position-embedding-type rope --normalization RMSNorm --swiglu "
                 "--disable-bias-linear --untie-embeddings-and-output-weights --num-experts 8 --moe-router-topk 2 --bf16").split()
        out = self.folder / "model.json"
        done = run("model", "extract", "--out", out, "--name", "Mixtral", "--", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("32 layers, 32 of them with 8 experts of which 2 are active, 46702792704 parameters, 12879925248 active", done.stderr)
        plan = run("plan", "import", "--ranks", "8", "--", *words, "--micro-batch-size", "1")
        other = run("plan", "import", self.write("ds.json", {"train_batch_size": 8}), "--ranks", "8", "--model", out)
        for refused in (plan, other):
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertRegex(refused.stderr, "models with experts are not priced yet: (gpt|Mixtral), 8 experts of which 2 are active, 46.7B parameters, 12.9B active")

    def test_what_cannot_be_counted_is_named(self):
        good = ("--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 "
                "--vocab-size 100 --global-batch-size 4").split()
        for words, named in ((["--mtp-num-layers", "1"], "--mtp-num-layers"), (["--hidden-size", "big"], '--hidden-size: expected one positive integer, found "big"'),
                             (["--position-embedding-type", "relative"], "yarn"), (["--fp16", "--bf16"], "--bf16"),
                             (["--num-attention-heads", "3"], "must divide")):
            done = run("model", "extract", "--", *good, *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(named, done.stderr)
        done = run("model", "extract", "--", *good[2:])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--num-layers", done.stderr)


class FromModule(unittest.TestCase):
    def test_bytes_are_those_of_the_tensors(self):
        given, example = gpt_module.small()
        found = module_model.document(given, example, name="small", global_batch=8)
        self.assertEqual([op["parameter_bytes"] for op in found["operators"]], measured_bytes(given, 4))
        self.assertEqual(found["tied_parameters"], [{"operators": [0, 5], "bytes": 4 * 128 * 16}])
        keys = [op["cost_key"] for op in found["operators"]]
        self.assertEqual(keys[1], keys[3])
        self.assertNotEqual(keys[1], keys[2])
        rows, hidden, ffn = 8, 16, 64
        self.assertEqual(found["operators"][2]["forward_flops"], 2 * rows * hidden * ffn * 2)
        self.assertEqual(found["operators"][1]["forward_flops"],
                         2 * rows * hidden * 3 * hidden + 2 * 2 * rows * rows * hidden + 2 * rows * hidden * hidden)
        self.assertEqual(found["operators"][1]["output_bytes"], 4 * rows * hidden)
        for op in found["operators"]:
            self.assertGreaterEqual(op["activation_bytes"], op["output_bytes"])

    def test_modules_without_names(self):
        found = module_model.document(*gpt_module.plain_sequence(), name="plain", global_batch=8)
        self.assertEqual([op["kind"] for op in found["operators"]], ["embedding", "sequential", "sequential", "head"])
        self.assertEqual([op["layer"] for op in found["operators"]], [0, 0, 1, 1])

    def test_how_layers_are_launched_is_said_where_all_are_alike(self):
        def make_graphed_callables(forward):  # As PyTorch's leaves a module.
            def graphed(*inputs):
                return forward(*inputs)
            return graphed

        layers, example = gpt_module.plain_sequence()
        said = []
        for module in (None, *layers):
            if module is not None:
                module.forward = make_graphed_callables(module.forward)
            said.append(module_model.document(layers, example, name="plain", global_batch=8)["launched_as"])
        self.assertEqual(said, ["kernels"] * len(layers) + ["graph"])

    def test_what_is_wrong_is_said(self):
        given, example = gpt_module.small()
        with self.assertRaisesRegex(module_model.BadModel, "first dimension must be 1"):
            module_model.document(given, example.repeat(2, 1), name="x", global_batch=8)
        with self.assertRaisesRegex(module_model.BadModel, "MODULE:FUNCTION"):
            module_model.load("gpt_module")


class ThroughTheProgram(ProgramTest):
    def test_module_to_file(self):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'client' / 'python'}:{pathlib.Path(__file__).parent}"}
        out = self.folder / "model.json"
        done = subprocess.run([PROGRAM, "model", "extract", "--module", "gpt_module:small", "--global-batch", "8",
                               "--python", PYTHON, "--out", out], env=environment, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        model = json.loads(out.read_text(encoding="utf-8"))
        given, _ = gpt_module.small()
        self.assertEqual([op["parameter_bytes"] for op in model["operators"]], measured_bytes(given, 4))
        everything = {id(parameter): parameter for layer in given for parameter in layer[-1].parameters()}
        self.assertIn(f"{4 * sum(p.numel() for p in everything.values())} bytes of parameters", done.stderr)


if __name__ == "__main__":
    unittest.main()
