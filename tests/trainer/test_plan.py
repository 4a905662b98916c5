"""Plans are accepted whole or refused with the path of the field."""
import copy
import os
import unittest

from harness import EVEN_RECOMPUTED, MODEL, SINGLE, UNEVEN, JobTest

import config
import plan as plans

BAD = [
    ("plan: must be an object", lambda plan: []),
    ("plan.schema", lambda plan: plan.update(schema="trimtab.plan/2")),
    ("plan.model", lambda plan: plan.update(model="other")),
    ("plan.global_batch", lambda plan: plan.update(global_batch=24)),
    ("plan.model", lambda plan: plan.pop("model")),
    ("plan.microbatch", lambda plan: plan.pop("microbatch")),
    ("plan.microbatch", lambda plan: plan.update(microbatch=5)),
    ("plan.microbatch", lambda plan: plan.update(microbatch="1")),
    ("plan.microbatch", lambda plan: plan.update(microbatch=True)),
    ("plan.schedule.kind", lambda plan: plan["schedule"].update(kind="zero-bubble")),
    ("plan.stages: the interleaved schedule needs", lambda plan: plan["schedule"].update(kind="interleaved")),
    ("plan.stages[3].devices: must be those of stages[1]", lambda plan: go_round(plan, [[0], [1], [0], [0]])),
    ("plan.stages: the interleaved schedule needs", lambda plan: go_round(plan, [[0], [0]])),
    ("plan.stages: the interleaved schedule needs", lambda plan: go_round(plan, [[0], [1], [0]])),
    ("plan.stages: their devices must be 0 to 1, each once, found [0, 2]", lambda plan: go_round(plan, [[0], [2], [0], [2]])),
    ("plan.microbatch: the interleaved schedule needs a multiple of its 2",
     lambda plan: (go_round(plan, [[0], [1], [0], [1]]), plan.update(microbatch=4))),
    ("plan.schedule.sliced_microbatches: must be 0 with interleaved",
     lambda plan: (go_round(plan, [[0], [1], [0], [1]]), plan["schedule"].update(sliced_microbatches=1))),
    ("plan.microbatch: 1 must be a multiple of 2", lambda plan: plan["schedule"].update(sliced_microbatches=2)),
    ("plan.microbatch: 1 must be a multiple of 3", lambda plan: plan["schedule"].update(sub_batches=3)),
    ("plan.schedule.sliced_microbatches: must be at most 1",
     lambda plan: (plan["schedule"].update(sliced_microbatches=2), plan.update(microbatch=6))),
    ("plan.schedule.sliced_microbatches", lambda plan: plan["schedule"].update(sliced_microbatches=13)),
    ("plan.schedule.sliced_microbatches", lambda plan: plan["schedule"].update(sliced_microbatches=1, sub_batches=2)),
    ("plan.schedule.sliced_microbatches: must be 0 with gpipe",
     lambda plan: plan["schedule"].update(kind="gpipe", sliced_microbatches=1)),
    ("plan.schedule.sub_batches", lambda plan: plan["schedule"].update(sub_batches=-1)),
    ("plan.schedule.recompute_after_communication",
     lambda plan: plan["schedule"].update(recompute_after_communication=True)),
    ("plan.schedule.cross_pass", lambda plan: plan["schedule"].update(cross_pass=True)),
    ("plan.stages", lambda plan: plan.update(stages={})),
    ("plan.stages: cover operators", lambda plan: plan["stages"].pop()),
    ("plan.stages: their devices", lambda plan: plan["stages"][1].update(devices=[0])),
    ("plan.stages[0].devices", lambda plan: plan["stages"][0].update(devices=["a"])),
    ("plan.stages[1].segments[0].operators", lambda plan: segment(plan).update(operators=[3, 8])),
    ("plan.stages[1].segments[0].operators", lambda plan: segment(plan).update(operators=[4, 9])),
    ("plan.stages[1].segments[0].dp", lambda plan: segment(plan).update(dp=2)),
    ("plan.stages[1].segments[0].tp", lambda plan: segment(plan).update(tp=2)),
    ("plan.stages[1].segments[0].cp", lambda plan: segment(plan).update(cp=2)),
    ("plan.stages[1].segments[0].tp_consecutive", lambda plan: segment(plan).update(tp_consecutive=1)),
    ("plan.stages[1].segments[0].alternate_dimension", lambda plan: segment(plan).update(alternate_dimension=[[4, 5]])),
    ("plan.stages[1].segments[0].sharded", lambda plan: segment(plan).update(sharded="optimizer")),
    ("plan.stages[1].segments[0].sharded", lambda plan: segment(plan).update(sharded="everything")),
    ("plan.stages[1].segments[0].sharded_degree", lambda plan: segment(plan).update(sharded_degree=2)),
    ("plan.stages[1].segments[0].recompute[0]", lambda plan: segment(plan).update(recompute=[[2, 5]])),
    ("plan.stages[1].segments[0].switches.offload_hidden: operator 4 keeps more than its input",
     lambda plan: segment(plan).update(recompute=[[5, 8]], switches={"offload_hidden": [[4, 6]]})),
    ("plan.stages[1].segments[0].switches.offload_hidden[0]",
     lambda plan: segment(plan).update(switches={"offload_hidden": [[3, 6]]})),
    ("plan.stages[1].segments[0].switches.partition_parameters[0]",
     lambda plan: segment(plan).update(switches={"partition_parameters": [[3, 6]]})),
    ("plan.stages[1].segments[0].switches", lambda plan: segment(plan).update(switches=[])),
    ("plan.stages[1].segments[0].switches.offload_optimizer",
     lambda plan: segment(plan).update(switches={"offload_optimizer": 1})),
    ("plan.stages[1].segments[0].switches.lazy_prefetch: operator 5 keeps its gathered parameters",
     lambda plan: segment(plan).update(switches={"partition_parameters": [[4, 5]], "lazy_prefetch": [[4, 6]]})),
    *((f"plan.stages[1].segments[0].switches.{name}[0]",
       lambda plan, name=name: segment(plan).update(switches={name: [[3, 6]]}))
      for name in ("lazy_prefetch", "economical_forward", "economical_backward")),
    ("plan.stages[1].segments[0].switches.lazyprefetch: is not honoured",
     lambda plan: segment(plan).update(switches={"lazyprefetch": [[4, 5]]})),
    ("plan.target_knobs.sequence_parallel: needs tp above 1", lambda plan: plan.update(target_knobs={"sequence_parallel": True})),
    ("plan.target_knobs.sequence_parallel: must be true or", lambda plan: plan.update(target_knobs={"sequence_parallel": 1})),
    *((f"plan.{where}", lambda plan, change=change: share(plan, change)) for where, change in {
        "stages[0].segments[1].tp: must be the first segment's, 2": lambda plan, first, second: second.update(cp=2, tp=1),
        "stages[0].segments[1].cp: must be the first segment's, 1": lambda plan, first, second: (
            first.update(dp=2, tp=1, cp=1), second.update(tp=1, cp=2), plan.pop("target_knobs")),
        "stages[0].segments[1].switches: must be off": lambda plan, first, second: second.update(
            switches={"segment_sync": [[4, 8]]}),
        "schedule.sub_batches: must be 1": lambda plan, first, second: plan["schedule"].update(sub_batches=2),
    }.items()),
    ("plan.target_knobs", lambda plan: plan.update(target_knobs={"precision": "bf16"})),
    ("plan.surprise", lambda plan: plan.update(surprise=[1])),
]


def segment(plan):
    return plan["stages"][1]["segments"][0]


def go_round(plan, devices):
    """Stages of an operator each on these devices."""
    last = len(devices) - 1
    plan["schedule"]["kind"] = "interleaved"
    plan["stages"] = [{"devices": one, "segments": [{"operators": [number, 8 if number == last else number + 1]}]}
                      for number, one in enumerate(devices)]


def share(plan, change):
    """One stage of two segments, whose two ranks share sequences; then changed."""
    first, second = ({"operators": [begin, begin + 4], "tp": 2} for begin in (0, 4))
    plan.update(microbatch=12, target_knobs={"sequence_parallel": True},
                stages=[{"devices": [0, 1], "segments": [first, second]}])
    change(plan, first, second)


class Plans(JobTest):
    def parse(self, document, world_size=2):
        return plans.parse(document, config.load(self.config), world_size)

    def test_what_cannot_be_honoured_is_refused_by_path(self):
        for path, spoil in BAD:
            document = copy.deepcopy(EVEN_RECOMPUTED)
            replaced = spoil(document)
            with self.subTest(path), self.assertRaises(plans.PlanRefused) as refused:
                self.parse(replaced if isinstance(replaced, list) and not replaced else document)
            self.assertTrue(str(refused.exception).startswith(path), refused.exception)

    def test_fields_that_are_off_ask_for_nothing(self):
        document = copy.deepcopy(UNEVEN)
        document["target_knobs"] = {}
        document["schedule"].update(sliced_microbatches=0, sub_batches=1, cross_pass=False,
                                    recompute_after_communication=False)
        segment(document).update(cp=1, sharded="none", tp_consecutive=True, alternate_dimension=[], switches={})
        self.assertEqual(self.parse(document), self.parse(UNEVEN))

    def test_degrees_that_do_not_divide_are_refused_by_what_they_split(self):
        three = {**SINGLE, "stages": [{"devices": [0, 1, 2], "segments": [{"operators": [0, 8], "tp": 3}]}]}
        with self.assertRaisesRegex(plans.PlanRefused, r"segments\[0\].tp: must divide what is split: embedding is "
                                    "split along its vocabulary, 64, found 3"):
            self.parse(three, 3)
        three["stages"][0]["segments"] = [{"operators": [0, 2], "dp": 3}, {"operators": [2, 3], "tp": 3},
                                          {"operators": [3, 8], "dp": 3}]
        with self.assertRaisesRegex(plans.PlanRefused, r"segments\[1\].tp: .*layer0-feedforward is .* 128, found 3"):
            self.parse(three, 3)

    def test_sharding_over_some_replicas(self):
        four = {**SINGLE, "stages": [{"devices": [0, 1, 2, 3], "segments": [
            {"operators": [0, 8], "dp": 4, "sharded": "gradients", "sharded_degree": 2}]}]}
        segment_ = self.parse(four, 4).stages[0].segments[0]
        place = segment_.place_of(2)
        self.assertEqual((segment_.shard_members(place), segment_.copy_members(place)), ((2, 3), (0, 2)))
        for degree in (1, 3):
            four["stages"][0]["segments"][0]["sharded_degree"] = degree
            with self.assertRaisesRegex(plans.PlanRefused, "sharded_degree: must"):
                self.parse(four, 4)

    def test_parameters_are_released_where_gradients_are_sharded(self):
        two = {**SINGLE, "stages": [{"devices": [0, 1], "segments": [
            {"operators": [0, 8], "dp": 2, "sharded": "optimizer", "switches": {"partition_parameters": [[2, 4]]}}]}]}
        with self.assertRaisesRegex(plans.PlanRefused, "switches.partition_parameters: needs gradients that are sharded"):
            self.parse(two, 2)
        fields = two["stages"][0]["segments"][0]
        fields["sharded"] = "gradients"
        segment_ = self.parse(two, 2).stages[0].segments[0]
        self.assertEqual([segment_.level_of(operator) for operator in (1, 2, 3, 4)],
                         ["gradients", "parameters", "parameters", "gradients"])
        fields["switches"].update(lazy_prefetch=[[3, 4]], economical_forward=[[0, 2]], economical_backward=[[1, 8]])
        stage = self.parse(two, 2).stages[0]
        self.assertEqual((stage.segments[0].lazy, stage.economical_forward, stage.economical_backward),
                         ({3}, {0, 1}, set(range(1, 8))))
        fields.update(dp=1, tp=2, sharded="none")  # One replica has all of its parameters anyway.
        self.assertEqual(self.parse(two, 2).stages[0].segments[0].level_of(2), "none")

    def test_the_two_orders_of_tensor_parallel_ranks(self):
        four = {**SINGLE, "stages": [{"devices": [3, 2, 1, 0], "segments": [{"operators": [0, 8], "dp": 2, "tp": 2}]}]}
        fields = four["stages"][0]["segments"][0]
        for consecutive, members in ((True, (2, 3)), (False, (1, 3))):
            fields["tp_consecutive"] = consecutive
            segment_ = self.parse(four, 4).stages[0].segments[0]
            self.assertEqual(segment_.tensor_members(segment_.place_of(3)), members)

    def test_several_segments_of_a_stage_are_one_after_the_other(self):
        document = copy.deepcopy(SINGLE)
        document["stages"][0]["segments"] = [{"operators": [0, 3], "recompute": [[1, 2]]}, {"operators": [3, 8]}]
        stage = self.parse(document, 1).stages[0]
        self.assertEqual((stage.begin, stage.end, stage.recompute), (0, 8, {1}))

    def test_the_trainer_says_what_is_wrong_and_exits_with_2(self):
        run = self.start({**SINGLE, "microbatch": 7}, 1, 1).wait()
        self.assertEqual(run.codes, [2])
        self.assertIn("plan.microbatch: must divide global_batch (12), found 7", run.errors[0])

    def test_a_model_file_with_a_misspelt_key_names_the_near_one(self):
        path = self.write("bad.toml", MODEL.replace("layers", "layer"))
        with self.assertRaisesRegex(config.BadInput, "unknown key layer; did you mean layers"):
            config.load(path)

    def test_the_examples_are_plans_for_their_model(self):
        examples = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
        for name, world_size, stages in (("gpt-cpu/initial", 2, [(0, 9), (9, 18)]), ("gpt-cpu/tensor", 4, [(0, 18)]),
                                         ("netns/initial", 4, [(0, 3), (3, 6)])):
            path = os.path.join(examples, name + ".json")
            model = config.load(os.path.join(os.path.dirname(path), "gpt.toml"))
            plan = plans.load(path, model, world_size)
            self.assertEqual([(stage.begin, stage.end) for stage in plan.stages], stages)


if __name__ == "__main__":
    unittest.main()
