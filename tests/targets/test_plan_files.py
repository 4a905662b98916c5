"""Configurations as people keep them: each is read as its framework does, or refused by the member that a plan cannot say."""
import copy
import json
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import meaning
import trimtab.pipelining as trimtab_pipelining
from program import ProgramTest, run

SHAPE = meaning.Shape(4)


class PlanFiles(ProgramTest):
    def take(self, document, *words, ranks=8, name="config.json"):
        text = document if isinstance(document, str) else json.dumps(document)
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return self.import_words(file, *(["--ranks", ranks] if ranks else []), *words)

    def import_words(self, *words, dtype="bfloat16"):
        model = SHAPE.document(64, dtype)
        for operator in model["operators"]:
            operator["shape"]["hidden"] = 32
        return run("plan", "import", "--model", self.write("model.json", model), *words)

    def plan(self, *arguments, **options):
        done = self.take(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def refuse(self, wanted, *arguments, **options):
        done = self.take(*arguments, **options)
        self.assertEqual(done.returncode, 2, f"{done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        for part in [wanted] if isinstance(wanted, str) else wanted:
            self.assertIn(part, done.stderr)


# As transformers' documentation shows it.
ZERO3 = {"fp16": {"enabled": "auto"}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "overlap_comm": True,
                               "contiguous_gradients": True, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
                               "stage3_prefetch_bucket_size": "auto", "stage3_max_live_parameters": 1e9},
         "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "train_batch_size": "auto",
         "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": False}


class DeepSpeed(PlanFiles):
    def test_auto_comes_from_the_arguments_of_transformers(self):
        said = ("--", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps=4", "--bf16", "True")
        plan, remarks = self.plan(ZERO3, *said)
        self.assertEqual((plan["global_batch"], plan["microbatch"]), (64, 16))
        segment = plan["stages"][0]["segments"][0]
        self.assertEqual((segment["dp"], segment["sharded"], segment["switches"]), (8, "parameters", {"offload_optimizer": True}))
        self.assertEqual(plan["target_knobs"], {"bucket_bytes": 2 * 32 * 32})
        self.assertIn("says nothing of a plan, and is passed over: fp16, gradient_clipping, optimizer, ", remarks)
        self.assertIn("zero_optimization.stage3_prefetch_bucket_size", remarks)
        self.refuse(["train_micro_batch_size_per_gpu: is \"auto\"", "add `-- --per_device_train_batch_size N`"], ZERO3)
        self.refuse(["is 4, but --per_device_train_batch_size is 2"],
                    {**ZERO3, "train_micro_batch_size_per_gpu": 4}, *said)

    def test_a_command_names_its_configuration(self):
        (self.folder / "ds.json").write_text(json.dumps(ZERO3), encoding="utf-8")
        script = ("train.py", "--deepspeed", self.folder / "ds.json", "--per_device_train_batch_size", "1",
                  "--gradient_accumulation_steps", "2")
        done = self.import_words("--", "deepspeed", "--num_gpus", "4", *script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["global_batch"], 8)
        file = self.folder / "train.sh"
        file.write_text("#!/bin/bash\ntorchrun --nproc_per_node 2 " + " ".join(map(str, script)) + "\n", encoding="utf-8")
        done = self.import_words(file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["stages"][0]["devices"]), 2)
        self.assertEqual(self.import_words(file, "--from", "deepspeed").stdout, done.stdout)
        done = self.import_words("--", "deepspeed", *script, "--micro-batch-size", "4")
        self.assertIn("--from megatron or --from deepspeed", done.stderr)

    def test_batches_as_deepspeed_completes_them(self):
        for members, ranks, expected in (({"train_batch_size": 32}, 8, (32, 32)),
                                         ({"train_micro_batch_size_per_gpu": 3}, 2, (6, 6)),
                                         ({"train_batch_size": 32, "gradient_accumulation_steps": 2}, 4, (32, 16)),
                                         ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2}, 4, (32, 8)),
                                         ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2,
                                           "gradient_accumulation_steps": 4}, None, (32, 8))):
            with self.subTest(members=members):
                plan, _ = self.plan(members, ranks=ranks)
                self.assertEqual((plan["global_batch"], plan["microbatch"]), expected)
        self.refuse("train_batch_size: must be train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks, found 30",
                    {"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4})
        self.refuse("--ranks: needed", {"train_batch_size": 32}, ranks=None)
        self.refuse("train_micro_batch_size_per_gpu: this or train_batch_size is needed", {"zero_optimization": {"stage": 1}})

    def test_one_rank_may_offload(self):
        plan, _ = self.plan({"train_batch_size": 4, "zero_optimization": {"stage": 2, "cpu_offload": True}}, ranks=1)
        self.assertEqual(plan["stages"][0]["segments"][0]["switches"], {"offload_optimizer": True})
        self.check_runs(plan, "deepspeed")

    def check_runs(self, plan, target):
        self.assertEqual(plan["stages"][0]["segments"][0].get("sharded", "none"), "none")
        done = self.export(plan, SHAPE.document(plan["global_batch"], "bfloat16"), target)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_rank_shards_nothing(self):
        plan, _ = self.plan({"train_batch_size": 4, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000}}, ranks=1)
        self.assertNotIn("bucket_bytes", plan.get("target_knobs", {}))
        self.check_runs(plan, "deepspeed")
        done = self.import_words("--ranks", 1, "--", "train.py", "--per_device_train_batch_size", "4", "--fsdp", "full_shard auto_wrap")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_runs(json.loads(done.stdout), "transformers")

    def test_what_a_plan_cannot_say_is_named(self):
        zero = {"stage": 3, "offload_param": {"device": "none"}}
        base = {"train_batch_size": 16, "zero_optimization": zero}
        self.plan(base)
        for name, value in (("offload_param", {"device": "cpu"}), ("offload_optimizer", {"device": "nvme"}),
                            ("offload_optimizer", {"device": "cpu", "ratio": 0.3}), ("zero_hpz_partition_size", 8),
                            ("mics_shard_size", 4), ("zero_quantized_gradients", True), ("zenflow", {"topk_ratio": 0.1}),
                            ("cpu_offload_params", True), ("stage", 4), ("stage", "auto"), ("reduce_bucket_size", 0.5),
                            ("overlap_com", True)):
            with self.subTest(member=name, value=value):
                self.refuse(f"config.json: zero_optimization.{name}", {**base, "zero_optimization": {**zero, name: value}})
        for name, value in (("tensor_parallel", {"autotp_size": 2}), ("sequence_parallel_size", 2),
                            ("elasticity", {"enabled": True}), ("autotuning", {"enabled": True}),
                            ("activation_checkpointing", {"cpu_checkpointing": True}), ("pipeline", {"stages": 4})):
            with self.subTest(member=name):
                self.refuse(f"config.json: {name}", {**base, name: value})


# Galvatron's own galvatron_config_llama2-7b_1nodes_8gpus_per_node_36GB_bf16.json (2.4) in small.
PUBLISHED = {"pp_deg": 1, "tp_sizes_enc": "1,1,1,1", "tp_consecutive_flags": "1,1,1,1", "dp_types_enc": "1,1,1,1",
             "use_sp": "0,0,0,0", "checkpoint": "1,1,1,0", "global_bsz": 16, "chunks": 1, "pp_division": "4",
             "pipeline_type": "pipedream_flush", "default_dp_type": "zero2", "vtp": 2, "vsp": 1, "embed_sdp": 1}


class Galvatron(PlanFiles):
    def test_published_strategy(self):
        self.refuse("vsp: a plan has no sequence parallelism of Ulysses", PUBLISHED)
        plan, _ = self.plan({**PUBLISHED, "vsp": 0, "min_cost": 1.5})
        segments = plan["stages"][0]["segments"]
        self.assertEqual([(one["dp"], one["tp"]) for one in segments], [(4, 2), (8, 1), (4, 2)])
        self.assertEqual({one["sharded"] for one in segments}, {"parameters"})
        self.assertEqual(segments[1]["recompute"], [[1, 7]])

    def test_what_a_file_leaves_out(self):
        short = {name: value for name, value in PUBLISHED.items()
                 if name in ("pp_deg", "tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "global_bsz", "chunks")}
        self.refuse(["default_dp_type: is needed", "-- --default_dp_type ddp|zero2|zero3"], short)
        plan, _ = self.plan({**short, "world_size": 8, "pp_deg": 2}, "--", "--default_dp_type", "ddp", "--pipeline_type=gpipe",
                            ranks=None)
        self.assertEqual([len(stage["devices"]) for stage in plan["stages"]], [4, 4])
        self.assertEqual(plan["schedule"]["kind"], "gpipe")
        self.refuse("--ranks: needed", short, ranks=None)

    def test_refusals(self):
        base = {**PUBLISHED, "vsp": 0}
        for name, value in (("tp_sizes_enc", "1,1,1"), ("tp_sizes_enc", "3,1,1,1"), ("tp_sizes_enc", "1,,1,1"), ("pp_deg", 5),
                            ("pp_division", "3"), ("use_sp", "1,1,1,1"), ("ep_sizes_enc", "2,2,2,2"), ("chunks", 3),
                            ("pipeline_type", "1f1b"), ("world_size", 16), ("vocab_sdp", 0), ("dp_types_enc", "1,1,1,2")):
            document = {**copy.deepcopy(base), name: value}
            if name == "use_sp":
                document["tp_sizes_enc"] = "2,2,2,2"
            with self.subTest(member=name, value=value):
                self.refuse(f"config.json: {name}", document)


# torchtitan's own train_configs/llama3_70b.toml (0.2) in small.
TOML = """# torchtitan Config.toml
[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 64
steps = 1000
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 2  # 2-way TP
pipeline_parallel_degree = 1
[activation_checkpoint]
mode = "full"
[float8]
enable_fsdp_float8_all_gather = false
"""
# What save_config_file of 0.3 writes, in small.
SAVED = {"model_spec": {"name": "llama3"}, "training": {"local_batch_size": 4, "global_batch_size": 32, "seq_len": 64},
         "parallelism": {"data_parallel_replicate_degree": 2, "data_parallel_shard_degree": -1, "tensor_parallel_degree": 2,
                         "fsdp_reshard_after_forward": "never", "enable_sequence_parallel": False, "spmd_backend": "spmd_types"},
         "activation_checkpoint": None}


class Torchtitan(PlanFiles):
    def test_presets(self):
        plan, remarks = self.plan(TOML, name="llama.toml")
        segment = plan["stages"][0]["segments"][0]
        self.assertEqual((segment["dp"], segment["tp"], segment["sharded"], segment["recompute"]), (4, 2, "parameters", [[1, 9]]))
        self.assertEqual((plan["global_batch"], plan["microbatch"], plan["target_knobs"]), (32, 32, {"sequence_parallel": True}))
        self.assertIn("passed over: float8, model, training.steps", remarks)
        plan, _ = self.plan(SAVED)
        segment = plan["stages"][0]["segments"][0]
        self.assertEqual((segment["dp"], segment["sharded"], segment["sharded_degree"]), (4, "gradients", 2))
        self.assertEqual((plan["global_batch"], plan["microbatch"]), (32, 16))
        self.assertNotIn("recompute", segment)

    def test_overrides_come_first(self):
        (self.folder / "llama.toml").write_text(TOML, encoding="utf-8")
        done = self.import_words("--", "torchrun", "--nproc_per_node", "4", "-m", "torchtitan.train", "--job.config_file",
                                 self.folder / "llama.toml", "--parallelism.tensor-parallel-degree=1",
                                 "--activation_checkpoint.mode", "selective")
        self.assertEqual(done.returncode, 0, done.stderr)
        segment = json.loads(done.stdout)["stages"][0]["segments"][0]
        self.assertEqual((segment["dp"], segment["recompute"]), (4, [[3, 5], [7, 9]]))
        plan, _ = self.plan(SAVED, "--", "activation-checkpoint:full")
        self.assertEqual(plan["stages"][0]["segments"][0]["recompute"], [[1, 9]])
        done = self.import_words("--ranks", "4", "--", "--module", "llama3", "--parallelism.tensor_parallel_degree", "2")
        self.assertIn("the configuration in Python is not run", done.stderr)

    def test_pipelines_as_torchtitan_cuts_them(self):
        pipeline = TOML.replace("tensor_parallel_degree = 2", "tensor_parallel_degree = 1").replace(
            "pipeline_parallel_degree = 1", "pipeline_parallel_degree = 2\n%s")
        for words, operators in (("", [[0, 5], [5, 10]]),  # (4 + 1 + 1) / 2 less 1 each
                                 ("pipeline_parallel_first_stage_less_layers = 0", [[0, 7], [7, 10]]),
                                 ('module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "layers.3", '
                                  '"norm", "output"]]', [[0, 3], [3, 10]]),
                                 ('pipeline_parallel_schedule = "Interleaved1F1B"\npipeline_parallel_first_stage_less_layers = 0\n'
                                  "pipeline_parallel_last_stage_less_layers = 0", [[0, 3], [3, 5], [5, 7], [7, 10]])):
            with self.subTest(words=words):
                plan, _ = self.plan(pipeline % words)
                self.assertEqual([stage["segments"][0]["operators"] for stage in plan["stages"]], operators)
                self.assertEqual(plan["stages"][0]["segments"][0]["sharded"], "gradients")  # its default with pipelines
        self.refuse("pipeline_parallel_schedule: a plan says", pipeline % 'pipeline_parallel_schedule = "ZBVZeroBubble"')
        self.refuse("training.global_batch_size: a plan has one run", pipeline % "", "--", "--training.global_batch_size", "64")
        self.refuse("module_fqns_per_model_part: a plan has the layers in order",
                    pipeline % 'module_fqns_per_model_part = [["layers.1"], ["layers.0"]]')

    def test_what_a_plan_cannot_say_is_named(self):
        for text, wanted in ((TOML.replace('"full"', '"selective"\nselective_ac_option = "op"'), "selective_ac_option: a plan recomputes whole"),
                             (TOML.replace('"full"', '"memory_budget"'), "activation_checkpoint.mode: a plan recomputes whole"),
                             (TOML.replace("steps = 1000", "enable_cpu_offload = true"), "training.enable_cpu_offload"),
                             (TOML.replace("[parallelism]", "[parallelism]\nexpert_parallel_degree = 2"), "expert_parallel_degree"),
                             (TOML.replace("seq_len = 64", "seq_len = 128"), "training.seq_len: is 128, but the model's"),
                             (TOML.replace("steps = 1000", "batch_sise = 4"), "training.batch_sise: torchtitan 0.1 to 0.3 have no such"),
                             (TOML + "[experimental]\ncontext_parallel_degree = 2\n", "experimental.context_parallel_degree"),
                             (TOML.replace("= -1", "= 3"), "parallelism: replicate, shard, context, tensor and pipeline degrees"),
                             (TOML.replace("[model]", "[model"), "config.json:2: this is not TOML")):
            with self.subTest(wanted=wanted):
                self.refuse(wanted, text, "--from", "torchtitan")
        self.refuse(["selective", "add `-- activation-checkpoint:none`"], {
            **SAVED, "activation_checkpoint": {"preserve_rng_state": True, "force_recompute_mm_shapes_by_fqns": []}})
        plan, _ = self.plan(TOML.replace("= -1", "= 4"), ranks=None)
        self.assertEqual(len(plan["stages"][0]["devices"]), 8)
        self.refuse("--ranks: needed", TOML, ranks=None)


# As GPT-NeoX's own configs/20B.yml is, in small.
NEOX = """# DISCLAIMER: in small
{
  "pipe-parallel-size": 2,
  "model_parallel_size": 2,
  "num_layers": 4, # of the model
  "seq_length": 64,
  "zero_optimization": {
  "stage": 1,
  "overlap_comm": True,
  "reduce_bucket_size": 500,
  },
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 32,
  "checkpoint_activations": true,
  "optimizer": {"type": "Adam", "params": {"lr": 0.97e-4, "betas": [0.9, 0.95]}},
}
"""


class NeoX(PlanFiles):
    def test_configuration(self):
        plan, remarks = self.plan(NEOX, name="20B.yml")
        self.assertEqual((plan["global_batch"], plan["microbatch"], len(plan["stages"])), (256, 8, 2))
        self.assertEqual(plan["stages"][1], {"devices": [4, 5, 6, 7], "segments": [
            {"operators": [5, 10], "dp": 2, "tp": 2, "sharded": "optimizer", "recompute": [[5, 9]]}]})
        self.assertEqual(plan["target_knobs"], {"bucket_bytes": 1000})
        self.assertIn("optimizer, zero_optimization.overlap_comm", remarks)

    def test_a_command_names_several_files(self):
        for name, part in (("model.yml", NEOX.replace('"checkpoint_activations": true,', "")),
                           ("more.yml", '{"checkpoint-activations": false, "sequence_parallel": true,}')):
            (self.folder / name).write_text(part, encoding="utf-8")
        words = ("--ranks", "4", "--", "python", "./deepy.py", "train.py", "-d", self.folder)
        done = self.import_words(*words, "model", "more.yml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["target_knobs"]["sequence_parallel"], True)
        self.assertIn("gradient_accumulation_steps: stands twice", self.import_words(*words, "model", "model.yml").stderr)

    def test_refusals(self):
        for old, new, wanted in (('"stage": 1', '"stage": 2', "zero_optimization.stage: DeepSpeed has pipelines with 0 and 1 alone"),
                                 ('"num_layers": 4', '"num_layers": 6', "num_layers: is 6, but the model has 4 layers"),
                                 ("checkpoint_activations", "partition_activations\": true, \"checkpoint_activations", "partition_activations"),
                                 ("num_layers", 'checkpoint_num_layers": 2, "num_layers', "checkpoint_num_layers: a plan recomputes one"),
                                 ('"pipe-parallel-size": 2', '"pipe-parallel-size": 3', "must divide the 8 ranks"),
                                 ("num_layers", 'pipe_partition_method": "uniform", "num_layers', "pipe_partition_method"),
                                 ("num_layers", 'moe_num_experts": 8, "num_layers', "moe_num_experts: a plan has no experts"),
                                 ("True,", "True", 'config.json:10: expected a comma or } behind "overlap_comm"')):
            with self.subTest(wanted=wanted):
                self.refuse(wanted, NEOX.replace(old, new, 1), "--from", "neox")
        self.plan(NEOX.replace("checkpoint_activations", "partition_activations\": true, \"checkpoint_activations").replace(
            '"model_parallel_size": 2', '"model_parallel_size": 1'))


PARALLEL = {"schema": "trimtab.parallel/1", "kind": "fsdp", "world_size": 8, "global_batch": 64, "samples_per_microbatch": 4,
            "accumulation_steps": 2, "layers": 4, "checkpoint_layers": [0, 2, 3], "sharding_strategy": "HYBRID_SHARD", "shard_group_size": 4}


class Parallel(PlanFiles):
    def test_what_trimtab_parallel_reads(self):
        plan, _ = self.plan(PARALLEL, ranks=None)
        segment = plan["stages"][0]["segments"][0]
        self.assertEqual((segment["dp"], segment["sharded"], segment["sharded_degree"]), (8, "parameters", 4))
        self.assertEqual((plan["global_batch"], plan["microbatch"]), (64, 32))
        self.assertEqual(segment["recompute"], [[SHAPE.before, SHAPE.before + SHAPE.width], [SHAPE.before + 2 * SHAPE.width, SHAPE.operators - SHAPE.after]])

    def test_what_is_refused(self):
        for wanted, change in (("schema: expected trimtab.parallel/1", {"schema": "trimtab.parallel/2"}), ("kind: expected ddp, fsdp or fsdp2", {"kind": "zero"}),
                               ("global_batch: must be samples_per_microbatch x", {"global_batch": 63}), ("layers: is 5, but the model has 4", {"layers": 5}),
                               ("checkpoint_layers: expected numbers of layers, 0 to 3", {"checkpoint_layers": [4]}),
                               ("world_size: is 16, but the ranks are 8", {"world_size": 16, "global_batch": 128}),
                               ("shard_group_size: must divide world_size 8", {"shard_group_size": 3}),
                               ("sharding_strategy: expected NO_SHARD, SHARD_GRAD_OP", {"sharding_strategy": "SOME"}),
                               ("bucket_cap_mb: trimtab.parallel knows no such member of fsdp", {"bucket_cap_mb": 25})):
            with self.subTest(wanted=wanted):
                self.refuse(wanted, {**PARALLEL, **change})


PIPELINING = {"schema": "trimtab.pipelining/1", "schedule": "Interleaved1F1B", "n_microbatches": 4, "world_size": 4, "group_size": 2,
              "global_batch": 64, "batch_size": 32, "layers": 4, "split_layers": [1, 2, 3], "checkpoint_layers": [3]}


class Pipelining(PlanFiles):
    def test_what_trimtab_pipelining_reads(self):
        plan, _ = self.plan(PIPELINING, ranks=None)
        self.assertEqual([stage["devices"] for stage in plan["stages"]], [[0, 1], [2, 3], [0, 1], [2, 3]])
        self.assertEqual((plan["schedule"]["kind"], plan["global_batch"], plan["microbatch"]), ("interleaved", 64, 16))
        self.assertEqual([stage["segments"][0].get("recompute", []) for stage in plan["stages"]], [[], [], [], [[7, 9]]])

    def test_what_runs_without_a_plan_is_read_as_one(self):
        """A script without a plan saves what its lines have made."""
        with unittest.mock.patch.dict("os.environ", WORLD_SIZE="2"):
            run = trimtab_pipelining.load(layers=4, n_microbatches=8, batch_size=64, schedule="Interleaved1F1B", stages_per_rank=2)
        run.save(self.folder / "saved.json")
        plan, _ = self.plan((self.folder / "saved.json").read_text(encoding="utf-8"), ranks=None)
        self.assertEqual([stage["segments"][0]["operators"] for stage in plan["stages"]], [[0, 3], [3, 5], [5, 7], [7, 10]])
        self.assertEqual((plan["schedule"]["kind"], plan["global_batch"], plan["microbatch"]), ("interleaved", 64, 8))

    def test_what_is_refused(self):
        for wanted, change in (("schema: expected trimtab.pipelining/1", {"schema": "trimtab.pipelining/2"}),
                               ("schedule: a plan has GPipe, 1F1B, Interleaved1F1B alone, found \"ZBVZeroBubble\"", {"schedule": "ZBVZeroBubble"}),
                               ("schedule: 1F1B has one stage on each rank, found 4 stages on 2 ranks", {"schedule": "1F1B"}),
                               ("n_microbatches: must divide batch_size 32, found 5", {"n_microbatches": 5}),
                               ("n_microbatches: expected a positive integer, found nothing", {"n_microbatches": None}),
                               ("group_size: must divide world_size 4, found 3", {"group_size": 3}),
                               ("global_batch: must be batch_size x world_size / group_size, 32 x 2, found 32", {"global_batch": 32}),
                               ("split_layers: must rise from 1 on, found 2", {"split_layers": [2, 2, 3]}),
                               ("split_layers: needs as many stages on each of the 2 ranks of a pipeline, found 3", {"split_layers": [1, 2]}),
                               ("split_layers: expected numbers of layers, 0 to 3", {"split_layers": [1, 2, 4]}),
                               ("layers: is 5, but the model has 4", {"layers": 5}),
                               ("loss_fn: trimtab.pipelining knows no such member", {"loss_fn": "mse"}),
                               ("does not run the plan that this says: schedule.kind: \"interleaved\" needs devices with several stages",
                                {"split_layers": [2]}),
                               ("rounds of its 2 ranks, so it needs a multiple of these, found 1", {"n_microbatches": 1})):
            with self.subTest(wanted=wanted):
                self.refuse(wanted, {**PIPELINING, **change}, "--from", "pipelining", ranks=None)


class Formats(PlanFiles):
    def test_a_format_is_known_by_its_members(self):
        self.refuse("A configuration is known by its members; read are those of", {"model_type": "llama"})
        self.refuse("--from", PUBLISHED, "--from", "galvatrom")
        self.refuse("config.json: ", '{"train_batch_size": 4,', "--from", "deepspeed")
        self.refuse("expected an object", "[1, 2]", "--from", "deepspeed")
        done = run("plan", "import", self.write("ds.json", ZERO3), "--ranks", "2")
        self.assertIn("--model: needed", done.stderr)


if __name__ == "__main__":
    unittest.main()
