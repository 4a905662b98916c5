"""Random plans that the product exports, in the hands of the frameworks' own checks: Megatron-LM's parser, validate_args and
TransformerConfig, from a folder Megatron-LM in TRIMTAB_SOURCES, DeepSpeed's configuration class, transformers' own parser with
TrainingArguments, accelerate's launcher and plugins, Lightning's Trainer and strategies, and torchtitan's with its dimensions and schedules: 0.3, and from a folder torchtitan-0.2.2 in TRIMTAB_SOURCES what read TOML.
PyTorch's own stages and schedules take what is written for them. Galvatron's reader of strategies is that of a folder Galvatron in TRIMTAB_SOURCES."""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "targets"), str(HERE.parent / "client_python")]

import meaning  # noqa: E402
import random_plans  # noqa: E402
from program import ProgramTest, seed  # noqa: E402
from watched_job import PYTHON  # noqa: E402

PLANS = 120 if os.environ.get("TRIMTAB_TEST_LONG") == "1" else 60
FEWER = 100 if PLANS > 60 else 25  # where a framework has two targets, or starts slowly
FOLDERS = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere"))
SOURCES = FOLDERS / "Megatron-LM"
TRAINING = ("--lr", "1e-4", "--train-iters", "10", "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "1000")
HEADS = 8


def shape_of(generator):
    return meaning.Shape(generator.randint(4, 12), width=2)


def world_of(plan):
    return max(device for stage in plan["stages"] for device in stage["devices"]) + 1


def layers_of_stages(shape, stages):
    return [sum(begin <= shape.layer_range(layer)[0] < end for layer in range(shape.layers))
            for begin, end in (stage["segments"][0]["operators"] for stage in stages)]


def has_torchtitan():
    looked = subprocess.run([PYTHON, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torchtitan') is None)"], check=False)
    return looked.returncode == 0


def read_by_torchtitan(shape, plan, policy):
    """What torchtitan must say of a plan."""
    first, stages = plan["stages"][0]["segments"][0], plan["stages"]
    groups = len({tuple(stage["devices"]) for stage in stages})
    shards = (first["sharded_degree"] or first["dp"]) if first["sharded"] != "none" else 1
    counts = layers_of_stages(shape, stages)
    schedule = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe", "interleaved": "ScheduleInterleaved1F1B"}[plan["schedule"]["kind"]]
    expected = {"dims": [first["dp"] // shards, shards, first["cp"], first["tp"], groups], "batch": plan["global_batch"],
                "microbatch": plan["microbatch"] // first["dp"], "policy": policy, "sharded": first["sharded"], "layers": counts,
                "schedule": schedule if groups > 1 else ""}
    if first["tp"] > 1:
        expected["sequence_parallel"] = plan.get("target_knobs", {}).get("sequence_parallel", False)
    return expected


class Exports(ProgramTest):
    def exported(self, target, plans=PLANS):
        """Pairs of a plan's shape and what is written of it; one seed's."""
        base = seed()
        for number in range(plans):
            generator = random.Random(f"{base}/{target}/{number}")
            shape = shape_of(generator)
            plan = random_plans.GENERATORS[target](generator, shape)
            done = self.export(plan, shape.document(plan["global_batch"], "bfloat16"), target)
            self.assertEqual(done.returncode, 0, f"plan {number} of seed {base}: {json.dumps(plan)}{done.stderr}")
            yield shape, plan, json.loads(done.stdout)

    def check(self, script, cases, *arguments, **environment):
        done = subprocess.run([PYTHON, HERE / "scripts" / script, *arguments], input="".join(json.dumps(case) + "\n" for case in cases),
                              env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False)
        objections = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(objections), len(cases), done.stderr[-4000:])
        return objections

    def assert_accepted(self, cases, objections):
        said = collections.Counter(one for one in objections if one)
        first = next((case for case, one in zip(cases, objections) if one), None)
        self.assertFalse(said, f"of {len(cases)}: {said}; {json.dumps(first)}")

    @unittest.skipUnless((SOURCES / "megatron").exists(), "TRIMTAB_SOURCES has no Megatron-LM")
    def test_megatron(self):
        cases = []
        for number, (shape, plan, written) in enumerate(self.exported("megatron")):
            model = ["--num-layers", str(shape.layers), "--hidden-size", "512", "--num-attention-heads", str(HEADS), "--seq-length",
                     str(shape.sequence), "--max-position-embeddings", str(shape.sequence)]
            # What the job sets, and what the plan needs over it.
            environment = {"CUDA_DEVICE_MAX_CONNECTIONS": "1", **written["environment"]}
            dtype = ["--bf16"] if number % 3 else []
            cases.append({"arguments": [*model, *TRAINING, *dtype, *written["arguments"]], "world": world_of(plan),
                          "environment": environment})
        self.assert_accepted(cases, self.check("megatron_validates.py", cases, SOURCES))
        kinds = {word for case in cases for word in case["arguments"] if word.startswith("--")}
        self.assertLessEqual({"--use-megatron-fsdp", "--optimizer-cpu-offload", "--pipeline-model-parallel-layout", "--sequence-parallel",
                              "--context-parallel-size", "--recompute-modules", "--num-distributed-optimizer-instances",
                              "--overlap-param-gather"}, kinds)
        # The checks are theirs: what they refuse is refused here, too.
        worse = {**cases[1], "arguments": [*cases[1]["arguments"], "--optimizer-cpu-offload", "--num-query-groups", "3"]}
        self.assertNotEqual(self.check("megatron_validates.py", [worse], SOURCES), [""])

    @unittest.skipUnless((FOLDERS / "Galvatron" / "galvatron").exists(), "TRIMTAB_SOURCES has no Galvatron")
    def test_galvatron(self):
        cases = []
        for shape, plan, written in self.exported("galvatron"):
            rows = [[one.stage, one.dp, one.tp, one.cp, one.tp_consecutive, one.sharded, one.recompute] for one in meaning.of_plan(plan).operators]
            parts = [rows[0], *(rows[shape.layer_range(layer)[0]] for layer in range(shape.layers)), rows[-1]]
            kind = {"1f1b": "pipedream_flush", "gpipe": "gpipe"}[plan["schedule"]["kind"]]
            cases.append({"config": written["file_text"], "world": world_of(plan), "layers": shape.layers,
                          "expected": {"parts": parts, "batch": plan["global_batch"], "microbatches": plan["global_batch"] // plan["microbatch"],
                                       "schedule": kind}})
        self.assert_accepted(cases, self.check("galvatron_validates.py", cases, FOLDERS / "Galvatron"))
        self.assertTrue(any(part[3] > 1 for case in cases for part in case["expected"]["parts"]), "some share sequences")
        worse = [{**cases[0], "layers": cases[0]["layers"] + 1}, {**cases[0], "world": 7 * cases[0]["world"]},
                 {**cases[0], "config": cases[0]["config"].replace("global_bsz", "batch")}]
        self.assertNotIn("", self.check("galvatron_validates.py", worse, FOLDERS / "Galvatron"))

    def test_deepspeed(self):
        cases = []
        for _, plan, written in self.exported("deepspeed"):
            config = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "bf16": {"enabled": True},
                      **json.loads(written["file_text"])}
            cases.append({"config": config, "world": world_of(plan)})
        self.assert_accepted(cases, self.check("deepspeed_validates.py", cases, DS_ACCELERATOR="cpu"))
        worse = {"config": {**cases[0]["config"], "train_batch_size": 10_007}, "world": cases[0]["world"]}
        self.assertNotEqual(self.check("deepspeed_validates.py", [worse], DS_ACCELERATOR="cpu"), [""])

    def cases_of_trainer(self, target, zero):
        for _, plan, written in self.exported(target, FEWER):
            first, bucket = plan["stages"][0]["segments"][0], plan.get("target_knobs", {}).get("bucket_bytes")
            yield {"arguments": written["arguments"], "world": world_of(plan),
                   "expected": {"batch": plan["global_batch"], "microbatch": plan["microbatch"] // first["dp"],
                                "recompute": bool(first.get("recompute")), "bucket_mib": bucket >> 20 if bucket and not zero else None,
                                "level": None if zero else first["sharded"], "stage": meaning.LEVELS.index(first["sharded"]) if zero else None,
                                "bucket_elements": bucket // 2 if bucket and zero else None, "offload": "switches" in first}}

    def test_transformers(self):
        cases = [*self.cases_of_trainer("transformers", False), *self.cases_of_trainer("transformers-deepspeed", True)]
        kinds = {word for case in cases for word in case["arguments"] if word.startswith("--")}
        self.assertLessEqual({"--fsdp", "--fsdp_config", "--ddp_bucket_cap_mb", "--deepspeed"}, kinds)
        # The checks are theirs: what they refuse is refused here, too, and what they read otherwise is said.
        worse = [{**cases[0], "arguments": [*cases[0]["arguments"], "--gradient_accumulation_stepz", "3"]},
                 {**cases[0], "world": 7 * cases[0]["world"]}]
        objections = self.check("transformers_validates.py", [*cases, *worse], DS_ACCELERATOR="cpu")
        self.assert_accepted(cases, objections[:len(cases)])
        self.assertNotIn("", objections[len(cases):])

    def test_accelerate(self):
        cases = []
        for target in ("accelerate", "accelerate-deepspeed"):
            for _, plan, written in self.exported(target, FEWER):
                first, zero, ranks = plan["stages"][0]["segments"][0], target == "accelerate-deepspeed", world_of(plan)
                shards = (first.get("sharded_degree") or ranks) if first["sharded"] != "none" and not zero else 1
                cases.append({**written, "world": ranks,
                              "expected": {"ranks": ranks, "level": None if zero else first["sharded"], "degree": shards,
                                           "stage": meaning.LEVELS.index(first["sharded"]) if zero else None,
                                           "recompute": bool(first.get("recompute")), "offload": "switches" in first}})
        self.assertTrue(any(1 < case["expected"]["degree"] < case["world"] for case in cases), "some shard in groups")
        worse = [{**cases[0], "file_text": cases[0]["file_text"] + "gradient_accumulation_steps: 2\n"},
                 {**cases[-1], "file_text": cases[-1]["file_text"].replace("zero_stage:", "zero_stages:")}]
        objections = self.check("accelerate_validates.py", [*cases, *worse], DS_ACCELERATOR="cpu")
        self.assert_accepted(cases, objections[:len(cases)])
        self.assertNotIn("", objections[len(cases):])

    def test_lightning(self):
        cases = []
        for target in ("lightning", "lightning-deepspeed"):
            for _, plan, written in self.exported(target, FEWER):
                first, bucket, ranks = plan["stages"][0]["segments"][0], plan.get("target_knobs", {}).get("bucket_bytes"), world_of(plan)
                expected = {"samples": plan["microbatch"] // ranks, "steps": plan["global_batch"] // plan["microbatch"], "kind": "DDPStrategy",
                            "sharding": None, "mesh": None, "stage": None, "offload": "switches" in first, "bucket": bucket}
                if target == "lightning-deepspeed":
                    expected.update(kind="DeepSpeedStrategy", stage=meaning.LEVELS.index(first["sharded"]), bucket=bucket // 2 if bucket else None)
                elif first["sharded"] != "none":
                    shards, whole = first.get("sharded_degree") or ranks, first["sharded"] == "parameters"
                    names = ("FULL_SHARD", "HYBRID_SHARD") if whole else ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2")
                    expected.update(kind="FSDPStrategy", sharding=names[shards < ranks], mesh=[ranks // shards, shards] if shards < ranks else None)
                cases.append({"arguments": written["arguments"], "expected": expected})
        worse = [{**cases[0], "arguments": [*cases[0]["arguments"][:-1], "FSDPStrategies"]},
                 {**cases[-1], "arguments": [*cases[-1]["arguments"], "--trainer.strategy.stages", "2"]}]
        objections = self.check("lightning_validates.py", [*cases, *worse], DS_ACCELERATOR="cpu")
        self.assert_accepted(cases, objections[:len(cases)])
        self.assertNotIn("", objections[len(cases):])

    def test_pipelining(self):
        cases = []
        for shape, plan, written in self.exported("pipelining"):
            stages, dp = plan["stages"], plan["stages"][0]["segments"][0]["dp"]
            groups = world_of(plan) // dp
            kind = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe", "interleaved": "ScheduleInterleaved1F1B"}[plan["schedule"]["kind"]]
            cases.append({"file": json.loads(written["file_text"]),
                          "expected": {"schedules": [kind], "replicas": dp, "layers": layers_of_stages(shape, stages),
                                       "stages": [list(range(rank, len(stages), groups)) for rank in range(groups)],
                                       "samples": [plan["microbatch"] // dp] * (plan["global_batch"] // plan["microbatch"])}})
        self.assertEqual({case["file"]["schedule"] for case in cases}, {"GPipe", "1F1B", "Interleaved1F1B"})
        worse = [{**cases[0], "file": {**cases[0]["file"], "schedule": "2F2B"}}]
        for kind in ("1F1B", "Interleaved1F1B"):
            case = next(case for case in cases if case["file"]["schedule"] == kind and case["file"]["group_size"] > 1)
            ranks = case["file"]["group_size"]
            many = 1 if kind == "1F1B" else 2 * ranks + 1
            worse += [{**case, "file": {**case["file"], "n_microbatches": many, "batch_size": many}},
                      {**case, "file": {**case["file"], "split_layers": [], "world_size": 2 * ranks, "group_size": 2 * ranks}}]
        objections = self.check("pipelining_validates.py", [*cases, *worse])
        self.assert_accepted(cases, objections[:len(cases)])
        for objection, words in zip(objections[len(cases):], ("Unknown schedule name", "microbatches", "larger than number of stages",
                                                              "multiple of the number of rounds", "larger than number of stages"), strict=True):
            self.assertIn(words, objection)

    def check_torchtitan(self, target, *folder):
        cases = []
        for shape, plan, written in self.exported(target):
            words = written["arguments"]
            policy = int(words[-1]) if words[-1].isdigit() else words[-1].rpartition(":")[2]
            cases.append({"arguments": ["--training.seq_len", str(shape.sequence), *words], "world": world_of(plan),
                          "layers": shape.layers, "expected": read_by_torchtitan(shape, plan, policy)})
        self.assert_accepted(cases, self.check("torchtitan_validates.py", cases, *folder))
        kinds = {word.partition("=")[0] for case in cases for word in case["arguments"]}
        self.assertLessEqual({"--parallelism.module_fqns_per_model_part", "--parallelism.fsdp_reshard_after_forward", "Interleaved1F1B",
                              "GPipe", "1F1B"}, kinds)
        worse = []
        for case in (case for case in cases if case["expected"]["schedule"] == "Schedule1F1B"):
            at = case["arguments"].index("--parallelism.pipeline_parallel_microbatch_size")
            worse.append({**case, "arguments": [*case["arguments"][:at + 1], "1000000", *case["arguments"][at + 2:]]})
        worse.append({**cases[0], "world": 7 * cases[0]["world"]})
        self.assertNotIn("", self.check("torchtitan_validates.py", worse, *folder))

    @unittest.skipUnless(has_torchtitan(), "the frameworks' environment has no torchtitan")
    def test_torchtitan(self):
        self.check_torchtitan("torchtitan")

    @unittest.skipUnless((FOLDERS / "torchtitan-0.2.2" / "torchtitan").exists(), "TRIMTAB_SOURCES has no torchtitan-0.2.2")
    def test_torchtitan_of_toml(self):
        self.check_torchtitan("torchtitan-0.2", FOLDERS / "torchtitan-0.2.2")


if __name__ == "__main__":
    unittest.main()
