"""What users of transformers, accelerate and Lightning write: each is read as its framework does, or refused by the name that a plan cannot say."""
import json
import unittest

from test_plan_files import SHAPE, ZERO3, PlanFiles


class FrameworkConfigs(PlanFiles):
    def command(self, *words, launcher=("torchrun", "--nproc_per_node", "8", "train.py")):
        done = self.import_words("--", *launcher, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        return plan, plan["stages"][0]["segments"][0], done.stderr

    def refuse_command(self, wanted, *words, launcher=("torchrun", "--nproc_per_node", "8", "train.py")):
        done = self.import_words("--", *launcher, *words)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(wanted, done.stderr)


LAYERS = [[SHAPE.before, SHAPE.operators - SHAPE.after]]
TRAINER = ("--per_device_train_batch_size", "4", "--gradient_accumulation_steps=8")


class Transformers(FrameworkConfigs):
    def test_arguments(self):
        plan, segment, _ = self.command(*TRAINER, "--gradient_checkpointing", "--ddp-bucket-cap-mb", "50", "--learning_rate", "2e-5")
        self.assertEqual((plan["global_batch"], plan["microbatch"], plan["target_knobs"]), (256, 32, {"bucket_bytes": 50 << 20}))
        self.assertEqual((segment["dp"], segment["sharded"], segment["recompute"]), (8, "none", LAYERS))
        plan, segment, _ = self.command("--per_device_train_batch_size", "2", "--activation_checkpointing", "False", "--gradient_checkpointing")
        self.assertEqual((plan["microbatch"], segment.get("recompute", [])), (16, []))

    def test_fsdp(self):
        for words, level, recompute in ((("--fsdp", "full_shard auto_wrap"), "parameters", []),
                                        (("--fsdp", "shard_grad_op"), "gradients", []),
                                        (("--fsdp", "--fsdp_config", '{"reshard_after_forward": "false", "fsdp_activation_checkpointing": true}'),
                                         "gradients", LAYERS),
                                        (("--fsdp", "full_shard", "--fsdp_config", '{"version": 1, "reshard_after_forward": "shard_grad_op"}'),
                                         "gradients", [])):
            with self.subTest(words=words):
                _, segment, _ = self.command(*TRAINER, *words)
                self.assertEqual((segment["sharded"], segment.get("recompute", [])), (level, recompute))
        file = self.write("fsdp.json", {"reshard_after_forward": True, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]})
        _, segment, remarks = self.command(*TRAINER, "--fsdp", "full_shard", "--fsdp_config", file)
        self.assertEqual(segment["sharded"], "parameters")
        self.assertIn("passed over: fsdp_config.transformer_layer_cls_to_wrap", remarks)

    def test_deepspeed_and_recomputation_together(self):
        file = self.write("ds.json", ZERO3)
        plan, segment, _ = self.command(*TRAINER, "--deepspeed", file, "--gradient_checkpointing", "True")
        self.assertEqual((plan["global_batch"], segment["sharded"], segment["switches"]), (256, "parameters", {"offload_optimizer": True}))
        self.assertEqual(segment["recompute"], LAYERS)

    def test_files_of_all_arguments(self):
        yaml = "### train\nper_device_train_batch_size: 1 # of a GPU\ngradient_accumulation_steps: 2\ngradient_checkpointing: true\nlearning_rate: 1.0e-4\n"
        plan, remarks = self.plan(yaml, name="sft.yaml")
        self.assertEqual((plan["global_batch"], plan["microbatch"]), (16, 8))
        self.assertIn("passed over: learning_rate", remarks)

    def test_refusals(self):
        for wanted, words in (("fsdp: a plan leaves parameters on the device", ("--fsdp", "full_shard offload")),
                              ("fsdp: a plan for the Trainer shards over all ranks", ("--fsdp", "hybrid_shard")),
                              ("fsdp_config.cpu_offload: a plan leaves", ("--fsdp", "--fsdp_config", '{"cpu_offload": true}')),
                              ("fsdp_config.auto_wrap_policy", ("--fsdp", "--fsdp_config", '{"auto_wrap_policy": "SIZE_BASED_WRAP"}')),
                              ("auto_find_batch_size: the Trainer chooses", ("--auto_find_batch_size", "True")),
                              ("every_n_layers", ("--activation_checkpointing_kwargs", '{"every_n_layers": 2}')),
                              ("beside --deepspeed", ("--fsdp", "full_shard", "--deepspeed", '{"zero_optimization": {"stage": 2}}')),
                              ("gradient_accumulation_steps: expected 1 to", ("--gradient_accumulation_steps", "0")),
                              ("gradient_checkpointing: expected true or false", ("--gradient_checkpointing", "maybe"))):
            with self.subTest(wanted=wanted):
                self.refuse_command(wanted, *TRAINER, *words)
        self.refuse_command("--ranks: needed", *TRAINER, launcher=("python3", "train.py"))


# As `accelerate config` writes it.
ACCELERATE = """compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_version: 2
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 2
num_processes: 8
rdzv_backend: c10d
same_network: true
tpu_env: []
use_cpu: false
"""
BATCH = ("--", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4")


class Accelerate(FrameworkConfigs):
    def test_file(self):
        plan, remarks = self.plan(ACCELERATE, *BATCH, ranks=None, name="fsdp.yaml")
        segment = plan["stages"][0]["segments"][0]
        self.assertEqual((plan["global_batch"], plan["microbatch"], segment["dp"], segment["sharded"]), (64, 16, 8, "parameters"))
        self.assertEqual(segment["recompute"], LAYERS)
        self.assertIn("mixed_precision", remarks)

    def test_options_come_before_the_file(self):
        (self.folder / "fsdp.yaml").write_text(ACCELERATE, encoding="utf-8")
        launcher = ("accelerate", "launch", "--config_file", self.folder / "fsdp.yaml", "--num_processes", "4", "--fsdp_reshard_after_forward",
                    "false", "train.py")
        plan, segment, _ = self.command("--per_device_train_batch_size", "2", launcher=launcher)
        self.assertEqual((plan["global_batch"], segment["dp"], segment["sharded"]), (8, 4, "gradients"))

    def test_a_launcher_without_a_file_starts_replicas(self):
        for launcher in (("--num_processes", "2"), ("--multi_gpu", "--num_processes", "2")):
            with self.subTest(launcher=launcher):
                plan, segment, _ = self.command("--batch_size", "4", launcher=("accelerate", "launch", *launcher, "train.py"))
                self.assertEqual((plan["global_batch"], segment["dp"], segment.get("sharded", "none")), (8, 2, "none"))

    def test_hybrid_shards(self):
        mesh = ACCELERATE + "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
        plan, _ = self.plan(mesh, *BATCH, ranks=None)
        self.assertEqual(plan["stages"][0]["segments"][0]["sharded_degree"], 4)
        first = ACCELERATE.replace("fsdp_version: 2", "fsdp_version: 1\n  fsdp_sharding_strategy: HYBRID_SHARD")
        plan, _ = self.plan(first, *BATCH, ranks=None)
        self.assertEqual(plan["stages"][0]["segments"][0]["sharded_degree"], 4)  # of each of two machines
        self.refuse("dp_shard_size", mesh.replace("dp_shard_size: 4", "dp_shard_size: 3"), *BATCH, ranks=None)

    def test_zero_of_the_launcher(self):
        words = ("accelerate", "launch", "--use_deepspeed", "--zero_stage", "1", "--offload_optimizer_device", "cpu", "--num_processes", "2",
                 "--gradient_accumulation_steps", "3", "train.py")
        plan, segment, _ = self.command("--train_batch_size", "2", launcher=words)
        self.assertEqual((plan["global_batch"], segment["sharded"], segment["switches"]), (12, "optimizer", {"offload_optimizer": True}))
        self.refuse_command("which takes the place of the script's 2", "--train_batch_size", "2", "--gradient_accumulation_steps", "2", launcher=words)

    def test_refusals(self):
        for old, new, wanted in (("fsdp_offload_params: false", "fsdp_offload_params: true", "fsdp_config.offload_params: a plan leaves"),
                                 ("distributed_type: FSDP", "distributed_type: MEGATRON_LM", "distributed_type: a plan for accelerate"),
                                 ("fsdp_version: 2", "fsdp_version: 3", "fsdp_config.version: expected 1 or 2"),
                                 ("fsdp_version: 2\n", "fsdp_version: 1\n", "fsdp_config.reshard_after_forward"),
                                 ("debug: false", "debug: [false", "config.json:2"),
                                 ("machine_rank: 0", "debug: true", "names what stands there already"),
                                 ("num_processes: 8", "num_processes: -1", "--ranks: needed")):
            with self.subTest(wanted=wanted):
                self.refuse(wanted, ACCELERATE.replace(old, new, 1), "--from", "accelerate", *BATCH, ranks=None)
        self.refuse("per_device_train_batch_size: accelerate does not say the batch", ACCELERATE, ranks=None)


class Lightning(FrameworkConfigs):
    def test_words_over_a_file(self):
        (self.folder / "config.yaml").write_text("""seed_everything: 1
trainer:
  devices: 4
  num_nodes: 2
  accumulate_grad_batches: 2
  precision: bf16-mixed
  strategy:
    class_path: lightning.pytorch.strategies.FSDPStrategy
    init_args:
      sharding_strategy: HYBRID_SHARD
data:
  class_path: my.Data
  init_args:
    batch_size: 8
""", encoding="utf-8")
        words = ("fit", "--config", self.folder / "config.yaml")
        plan, segment, remarks = self.command(*words, "--trainer.accumulate_grad_batches=4", launcher=("python", "main.py"))
        self.assertEqual((plan["global_batch"], plan["microbatch"], segment["dp"]), (256, 64, 8))
        self.assertEqual((segment["sharded"], segment["sharded_degree"]), ("parameters", 4))
        self.assertIn("trainer.precision", remarks)
        _, segment, _ = self.command(*words, "--trainer.strategy", "deepspeed_stage_2_offload", launcher=("python", "main.py"))
        self.assertEqual((segment["sharded"], segment["switches"]), ("gradients", {"offload_optimizer": True}))

    def test_refusals(self):
        batch = ("--data.batch_size", "2")
        for wanted, words in (("trainer.strategy: a plan for Lightning is of", ("--trainer.strategy", "ModelParallelStrategy", *batch)),
                              ("data.batch_size: the Trainer does not say", ("--trainer.strategy", "ddp")),
                              ("parameters on the device", ("--trainer.strategy", "deepspeed_stage_3_offload", *batch)),
                              ("cpu_offload", ("--trainer.strategy", "FSDPStrategy", "--trainer.strategy.cpu_offload", "true", *batch)),
                              ("device_mesh: expected replicas and shards", ("--trainer.strategy", "FSDPStrategy",
                                                                             "--trainer.strategy.sharding_strategy", "HYBRID_SHARD",
                                                                             "--trainer.strategy.device_mesh", "[3, 2]", *batch))):
            with self.subTest(wanted=wanted):
                self.refuse_command(wanted, *words)


if __name__ == "__main__":
    unittest.main()
