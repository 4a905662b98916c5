"""A plan that sets what a target does not honour is refused by the knob's name, never exported without it."""
import copy
import json
import random
import unittest

import meaning
import random_plans
from program import ProgramTest, run, seed

SHAPE = meaning.Shape(4)


def segment(plan):
    return plan["stages"][0]["segments"][0]


def split_in_two(plan):
    """Two stages, the second with other devices."""
    stage = plan["stages"][0]
    second = copy.deepcopy(stage)
    count = len(stage["devices"])
    second["devices"] = [device + count for device in stage["devices"]]
    stage["segments"][0]["operators"] = [0, 3]
    second["segments"][0]["operators"] = [3, SHAPE.operators]
    for half in (stage, second):
        half["segments"][0].pop("recompute", None)
    plan["stages"].append(second)


def two_samples(plan):
    """Of each replica, which sub-batches and sliced microbatches need."""
    plan["microbatch"] = 4


def switched(plan, **switches):
    segment(plan).update(sharded="gradients", switches={"offload_optimizer": True, **switches})


def halved(plan, **schedule):
    two_samples(plan)
    plan["schedule"].update(sub_batches=2, **schedule)


def sliced(plan):
    split_in_two(plan)
    two_samples(plan)
    plan["schedule"].update(sliced_microbatches=1)


def pipelined(plan, kind):
    split_in_two(plan)
    plan["schedule"]["kind"] = kind


def interleaved(plan):
    split_in_two(plan)
    plan["schedule"]["kind"] = "interleaved"
    plan["stages"] = [copy.deepcopy(stage) for stage in plan["stages"] * 2]
    for stage, operators in zip(plan["stages"], ([0, 3], [3, 5], [5, 7], [7, SHAPE.operators])):
        stage["segments"][0]["operators"] = operators


def apart(plan):
    """Tensor-parallel ranks that are no neighbours."""
    plan["stages"][0]["devices"] = [0, 1, 2, 3]
    segment(plan).update(tp=2, dp=2, tp_consecutive=False)


def shared_sequences(plan):
    segment(plan).update(tp=2, dp=1)
    knob(plan, sequence_parallel=True)


def sharded_in_pairs(plan):
    two_samples(plan)
    plan["stages"][0]["devices"] = [0, 1, 2, 3]
    segment(plan).update(dp=4, sharded="parameters", sharded_degree=2)


def knob(plan, **knobs):
    plan["target_knobs"] = knobs


def gathered(plan):
    segment(plan).update(sharded="gradients")
    knob(plan, bucket_bytes=1 << 20, overlap_parameter_gather=True)


# Each keeps the rules of a plan, so that it is the target who refuses it.
MUTATIONS = {
    "segments.tp": lambda plan: segment(plan).update(tp=2, dp=1),
    "segments.cp": lambda plan: segment(plan).update(cp=2, dp=1),
    "segments.tp_consecutive": apart,
    "segments.sharded_degree": sharded_in_pairs,
    "schedule.kind interleaved": interleaved,
    "schedule.kind": lambda plan: pipelined(plan, "gpipe"),
    "schedule.sliced_microbatches": sliced,
    "schedule.sub_batches": halved,
    "schedule.cross_pass": lambda plan: halved(plan, cross_pass=True),
    "switches.offload_hidden": lambda plan: switched(plan, offload_hidden=[[0, 3]]) or segment(plan).update(recompute=[[0, 5]]),
    "switches.offload_optimizer": switched,
    "switches.segment_sync": lambda plan: switched(plan, segment_sync=[[0, 5]]),
    "target_knobs.bucket_bytes": lambda plan: knob(plan, bucket_bytes=1 << 20),
    "target_knobs.overlap_parameter_gather": gathered,
    "target_knobs.sequence_parallel": shared_sequences,
    "target_knobs.weather": lambda plan: knob(plan, weather="fine"),
    ".recompute": lambda plan: segment(plan).update(recompute=[[0, 1]]),
    "stages": split_in_two,
}
# One stage with everything is where these start.
BASE = {"schema": "trimtab.plan/1", "model": "random", "global_batch": 8, "microbatch": 2,
        "schedule": {"kind": "1f1b", "transfers": "blocking"},
        "stages": [{"devices": [0, 1], "segments": [{"operators": [0, SHAPE.operators], "dp": 2, "tp": 1}]}]}
# What nobody can set without another knob, by whose name it may be refused.
NEEDED = {"segments.tp_consecutive": "segments.tp"}
SPLITS = {"segments.tp", "segments.cp", "stages"}
SEQUENCES = {"schedule.kind interleaved", "target_knobs.sequence_parallel"}
OFFLOADED, BUCKETS, SHARDS = {"switches.offload_optimizer"}, {"target_knobs.bucket_bytes"}, {"segments.sharded_degree"}
HONOURED = {"megatron": SPLITS | BUCKETS | SEQUENCES, "galvatron": SPLITS | {"schedule.kind", "segments.tp_consecutive"},
            "torchtitan": SPLITS | SHARDS | SEQUENCES | {"schedule.kind"}, "torchtitan-0.2": SPLITS | SHARDS | SEQUENCES | {"schedule.kind"}, "ddp": BUCKETS, "transformers": BUCKETS, "lightning": BUCKETS | SHARDS,
            "pipelining": {"stages", "schedule.kind", "schedule.kind interleaved"}, "fsdp": SHARDS, "fsdp2": SHARDS, "accelerate": SHARDS, "accelerate-deepspeed": OFFLOADED,
            **dict.fromkeys(("deepspeed", "transformers-deepspeed", "lightning-deepspeed"), OFFLOADED | BUCKETS)}


class Refusals(ProgramTest):
    def refuse(self, plan, target, name):
        done = self.export(plan, SHAPE.document(plan["global_batch"]), target)
        self.assertEqual(done.returncode, 2, f"{target} took {name}: {done.stdout}")
        wanted = [name if " " in name else name.split(".")[-1], *([f"{NEEDED[name]}: must be"] if name in NEEDED else [])]
        self.assertTrue(any(one in done.stderr for one in wanted), done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_each_knob_by_name(self):
        for target in random_plans.GENERATORS:
            for name, mutate in MUTATIONS.items():
                if name in HONOURED.get(target, ()):
                    continue
                plan = copy.deepcopy(BASE)
                mutate(plan)
                with self.subTest(target=target, knob=name):
                    self.assertIn(f"sets what target '{target}' does not honour", self.refuse(plan, target, name.split(" ")[0]))

    def test_trainer_has_all_switches(self):
        plan = copy.deepcopy(BASE)
        # Of whole layers: the embedding is of the first.
        segment(plan).update(recompute=[[0, 5]], sharded="gradients",
                             switches={"offload_hidden": [[0, 3]], "offload_optimizer": True,
                                       "partition_parameters": [[0, 1], [1, 3]], "lazy_prefetch": [[0, 3]],
                                       "economical_forward": [[0, 3]], "economical_backward": [[3, 5]],
                                       "segment_sync": [[0, 5]]})
        done = self.export(plan, SHAPE.document(plan["global_batch"]), "trainer")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("offload_hidden", done.stdout)
        segment(plan)["recompute"] = [[0, 3]]
        refused = {"lazy_prefetch": {"partition_parameters": [[0, 3]], "lazy_prefetch": [[0, 5]]},
                   "offload_hidden": {"offload_hidden": [[0, 5]]}}
        for switches in refused.values():
            switches["offload_optimizer"] = True
        for name, switches in refused.items():
            segment(plan)["switches"] = switches
            with self.subTest(knob=name):
                self.refuse(plan, "trainer", f"switches.{name}")

    def test_an_export_runs_the_plans_rules(self):
        uneven = copy.deepcopy(BASE)
        uneven["microbatch"] = 1
        rounds = copy.deepcopy(BASE)
        interleaved(rounds)
        rounds["global_batch"] = 6  # Three microbatches on two groups of devices.
        missing = copy.deepcopy(BASE)
        missing["stages"][0]["devices"] = [7]
        for target in (*random_plans.GENERATORS, "trainer"):
            with self.subTest(target=target):
                self.refuse(missing, target, "must be the stage's 1 devices")
                self.refuse(uneven, target, "segments[0].dp: must divide microbatch 1")
                self.refuse(rounds, target, "needs a multiple of its 2 groups")

    def test_what_megatron_asserts_of_the_environment(self):
        for changes, needed in (({}, {}), ({"sharded": "parameters"}, {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}),
                                ({"tp": 2, "dp": 1}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"})):
            plan = copy.deepcopy(BASE)
            segment(plan).update(changes)
            done = self.export(plan, SHAPE.document(plan["global_batch"]), "megatron")
            self.assertEqual(json.loads(done.stdout)["environment"], needed, done.stderr)

    def test_sharding_levels(self):
        for target, level in (("ddp", "gradients"), ("ddp", "parameters"), ("fsdp", "optimizer"),
                              ("galvatron", "optimizer"), ("torchtitan", "optimizer"), ("torchtitan-0.2", "optimizer"),
                              ("transformers", "optimizer"), ("fsdp2", "optimizer"), ("accelerate", "optimizer"),
                              ("lightning", "optimizer"), ("pipelining", "gradients")):
            plan = copy.deepcopy(BASE)
            segment(plan)["sharded"] = level
            with self.subTest(target=target, level=level):
                self.refuse(plan, target, "sharded")

    def test_megatron_wants_one_split_and_one_recompute(self):
        plan = copy.deepcopy(BASE)
        split_in_two(plan)
        plan["stages"][1]["segments"][0].update(tp=2, dp=1)
        self.refuse(plan, "megatron", "stages[1].segments[0].tp")
        plan = copy.deepcopy(BASE)
        segment(plan)["recompute"] = [[3, 5]]  # the second layer, not the first
        self.refuse(plan, "megatron", "recompute")

    def test_cuts_inside_a_layer(self):
        for target in ("megatron", "galvatron", "pipelining"):
            plan = copy.deepcopy(BASE)
            split_in_two(plan)
            for stage, bounds in zip(plan["stages"], ([0, 4], [4, SHAPE.operators])):
                stage["segments"][0]["operators"] = bounds
            self.refuse(plan, target, "operators")

    def test_random_bad_knobs_never_vanish(self):
        """Whatever is mutated in a plan that was honoured, it is refused or its meaning is exported."""
        generator = random.Random(seed())
        for target, make in random_plans.GENERATORS.items():
            for _ in range(6):
                plan = make(generator, SHAPE)
                plan["schedule"]["cross_pass"] = True
                self.refuse(plan, target, "cross_pass")

    def test_sequences_that_megatron_cannot_share(self):
        model = {tokens: meaning.Shape(4, sequence=tokens).document(8) for tokens in (8, 12, 14)}
        plan = copy.deepcopy(BASE)
        segment(plan).update(dp=1, cp=2)
        self.assertEqual(self.export(plan, model[12], "megatron").returncode, 0)
        self.assertIn(".cp: needs a sequence of a multiple of 4, found 14", self.export(plan, model[14], "megatron").stderr)
        plan["stages"][0]["devices"] = list(range(8))
        plan["target_knobs"] = {"sequence_parallel": True}
        segment(plan).update(tp=4)
        self.assertEqual(self.export(plan, model[8], "megatron").returncode, 0)
        self.assertIn("ranks share each sequence in 8 equal parts", self.export(plan, model[12], "megatron").stderr)
        segment(plan).update(cp=1, dp=2)
        self.assertIn("ranks share each sequence in 4 equal parts",
                      self.export(plan, model[14], "megatron").stderr)

    def test_what_torchtitan_asserts(self):
        """Its trainer, its dimensions and PyTorch's schedules end with these."""
        pipeline = copy.deepcopy(BASE)
        split_in_two(pipeline)
        for target in ("torchtitan", "pipelining"):
            self.refuse({**pipeline, "global_batch": 2}, target, "1F1B needs as many microbatches as stages, 2, found 1")
        self.refuse(pipeline, "torchtitan-0.2", "neither tensor parallelism nor pipelines with DDP")
        context = copy.deepcopy(BASE)
        segment(context).update(dp=1, cp=2)
        self.refuse(context, "torchtitan", "shards over context-parallel ranks, too")
        tensor = copy.deepcopy(BASE)
        segment(tensor).update(dp=1, tp=2)
        self.refuse(tensor, "torchtitan-0.2", "target_knobs.sequence_parallel: must be true with tp above 1")
        tensor["target_knobs"] = {"sequence_parallel": True}
        odd = meaning.Shape(4, sequence=62).document(8)
        for target in ("torchtitan", "torchtitan-0.2"):
            self.assertEqual(self.export(tensor, SHAPE.document(8), target).returncode, 0)
        tensor["stages"][0]["devices"] = list(range(4))
        segment(tensor).update(tp=4)
        self.assertIn("equal parts", self.export(tensor, odd, "torchtitan").stderr)
        self.refuse({**BASE, "target_knobs": {"sequence_parallel": True}}, "torchtitan", "sequence_parallel")

    def test_targets_are_told_in_plain_words(self):
        for target, knobs in json.loads(run("plan", "targets", "--json").stdout).items():
            for knob in knobs:
                with self.subTest(target=target, knob=knob["knob"]):
                    self.assertTrue(knob["becomes"].isprintable() and knob["becomes"].isascii(), knob)

    def test_unknown_target_and_missing_model(self):
        plan = self.write("plan.json", BASE)
        done = run("plan", "export", plan, "--to", "megatron")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--model", done.stderr)
        done = run("plan", "export", plan, "--to", "megatorn", "--model", self.write("m.json", SHAPE.document(8)))
        self.assertEqual(done.returncode, 2)
        self.assertIn("megatron", done.stderr)

    def test_models_of_unequal_layers(self):
        model = SHAPE.document(8)
        model["operators"][3]["kind"] = "convolution"
        done = run("plan", "export", self.write("plan.json", BASE), "--to", "megatron", "--model",
                   self.write("model.json", model))
        self.assertEqual(done.returncode, 2)
        self.assertIn("convolution", done.stderr)


if __name__ == "__main__":
    unittest.main()
