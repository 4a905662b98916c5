"""Every plan that the built program finds or accepts for this trainer is one that the trainer accepts: what it honours
is written down twice, in schema's target `trainer` and in the trainer's parser.

TRIMTAB_TEST_LONG=1 draws many more.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tomllib
import unittest

from harness import ROOT, SEED, SINGLE, STEADY, JobTest
from random_plans import drawn, text
from test_random_plans import SCRIPT

import config
import plan as plans
import process_groups
from holding import of_rank
from model import operator_specs

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
PROGRAMS = pathlib.Path(os.environ.get("TRIMTAB_BUILD", os.path.join(ROOT, "build", "release"))) / "bin"
MACHINES = 12 if LONG else 2  # Invented costs.
DRAWN = 3000 if LONG else 250
TRAINED = 40 if LONG else 6
WORLD = 4
SEARCHES = (("aceso", "job"), ("unified", "job"), ("unified", "all"), ("galvatron", "galvatron-mixed"), ("autopipe", "autopipe"),
            ("oases", "oases"))
KNOBS = ("pipeline,uneven_stages,microbatch,data_parallel,recompute,sliced_microbatches,tensor_parallel,sharded,sub_batches,"
         "memory_switches")
CLUSTER = {"schema": "trimtab.cluster/1", "nodes": [{"name": "n0", "devices": WORLD, "memory_bytes": 1 << 30}],
           "links": [{"level": "intra_node"}]}


class Planned(JobTest):
    def setUp(self):
        super().setUp()
        if not (PROGRAMS / "trimtab").exists():
            self.skipTest(f"{PROGRAMS} has no trimtab")
        self.model_toml = self.write("steady.toml", STEADY)
        described = self.program([sys.executable, os.path.join(ROOT, "trainer", "describe.py"), "--config", self.model_toml])
        self.model = self.write("model.json", described)
        self.cluster = self.write("cluster.json", CLUSTER)
        self.parsed = config.from_document(tomllib.loads(STEADY))

    @staticmethod
    def program(words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def checked(self, document, refused_for=""):
        """Whether the program says that target trainer runs all of it; where it does not, for that field."""
        words = [PROGRAMS / "trimtab", "plan", "check", self.write(f"{random.getrandbits(64):x}.json", document), "--model",
                 self.model, "--cluster", self.cluster, "--target", "trainer"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), f"{done.stderr} {text(document)}")
        self.assertIn(refused_for, done.stdout)
        return done.returncode == 0

    def accepted(self, document):
        """Parsed, and each operator with a place on the ranks of its stage."""
        plan = plans.parse(document, self.parsed, WORLD)
        for spec in operator_specs(self.parsed):
            holders = [rank for rank in range(WORLD) if of_rank(plan, rank, spec, self.parsed)]
            self.assertEqual(sorted(plan.stage_of_operator(spec.index).devices), holders)
        process_groups.groups_of(plan)
        return plan

    def found(self, machine):
        """What searches of one machine's costs find, each plan once."""
        costs = os.path.join(self.folder, f"costs-{machine}.db")
        fingerprint = self.program([PROGRAMS / "invented_costs", self.model, self.cluster, SEED * 1000 + machine, costs]).strip()
        by_text = {}
        for strategy, space in SEARCHES:
            answer = self.program([
                PROGRAMS / "trimtab", "search", "--model", self.model, "--cluster", self.cluster, "--costs", costs,
                "--fingerprint", fingerprint, "--target", "trainer", "--strategy", strategy, "--space", space, "--knobs", KNOBS,
                "--seed", SEED * 1000 + machine, "--budget", "3000ev", "--plans", "20", "--allow-estimates", "--json"])
            ranked = json.loads(answer)["plans"]
            self.assertTrue(ranked, f"{strategy} in {space} found nothing")
            by_text.update((text(one["plan"]), one["plan"]) for one in ranked)
        return list(by_text.values())

    def test_what_searches_find_is_accepted_and_trains(self):
        print(f"seed: TRIMTAB_TEST_SEED={SEED}", file=sys.stderr)
        every = []
        for machine in range(MACHINES):
            documents = self.found(machine)
            for document in documents:
                with self.subTest(seed=SEED, machine=machine, plan=text(document)):
                    self.assertTrue(self.checked(document))
                    self.accepted(document)
            every += documents
        print(f"{len(every)} plans of searches", file=sys.stderr)
        some = random.Random(f"{SEED} trained").sample(every, min(TRAINED, len(every)))
        alone = self.train(SINGLE, 1, 2, config=self.model_toml)
        run = self.start(some, WORLD, 2, script=SCRIPT, config=self.model_toml).wait(600)
        self.assertEqual(run.codes, [0] * WORLD, f"seed {SEED}: {run.errors}")
        lines = run.lines()
        self.assertEqual(len(lines), 2 * len(some))
        for line in lines:
            with self.subTest(seed=SEED, plan=text(some[line["plan"]])):
                self.assertLessEqual(abs(line["loss"] / alone[line["step"]]["loss"] - 1), 1e-5)

    def test_what_the_check_accepts_the_trainer_accepts(self):
        """Of plans drawn without asking the trainer, some with knobs that it does not have."""
        print(f"seed: TRIMTAB_TEST_SEED={SEED}", file=sys.stderr)
        generator = random.Random(f"{SEED} checked")
        documents = [spoiled(generator, drawn(generator, WORLD)) for _ in range(DRAWN)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            checks = list(pool.map(self.checked, documents))
        for document, check in zip(documents, checks):
            if check:
                with self.subTest(seed=SEED, plan=text(document)):
                    self.accepted(document)
        print(f"{sum(checks)} of {DRAWN} drawn plans are checked", file=sys.stderr)
        self.assertGreater(sum(checks), DRAWN // 50)

    def test_what_the_trainer_refuses_the_check_refuses_by_the_same_word(self):
        for where, change in REFUSED.items():
            document = json.loads(text(SINGLE))
            document["stages"][0].update(devices=[0, 1, 2, 3])
            segment = document["stages"][0]["segments"][0]
            segment.update(dp=2, tp=2)
            change(document, segment)
            with self.subTest(word=where):
                with self.assertRaises(plans.PlanRefused) as refused:
                    plans.parse(document, self.parsed, WORLD)
                self.assertIn(where, str(refused.exception))
                self.assertFalse(self.checked(document, where))


def last_operator_on(device, segment):
    """A stage of its own for the head, taken from that segment."""
    begin, end = segment["operators"]
    segment["operators"] = [begin, end - 1]
    return {"devices": [device], "segments": [{"operators": [end - 1, end], "dp": 1, "tp": 1}]}


def second_segment(document, segment, **other):
    """The last operator in a segment of its own, with something else."""
    begin, end = segment["operators"]
    segment["operators"] = [begin, end - 1]
    document["stages"][0]["segments"].append({**segment, "operators": [end - 1, end], **other})


REFUSED = {
    "interleaved": lambda document, segment: document["schedule"].update(kind="interleaved"),
    "tp": lambda document, segment: (document["stages"][0].update(devices=[0, 1, 2]), segment.update(dp=1, tp=3),
                                     document["stages"].append(last_operator_on(3, segment))),
    "cp": lambda document, segment: second_segment(document, segment, cp=2, dp=1),
    "segments[1].tp": lambda document, segment: (document.update(target_knobs={"sequence_parallel": True}),
                                                 second_segment(document, segment, tp=4, dp=1)),
    "tp_consecutive": lambda document, segment: (document.update(target_knobs={"sequence_parallel": True}),
                                                 segment.update(tp_consecutive=False)),
    "sequence_parallel": lambda document, segment: (document.update(target_knobs={"sequence_parallel": True}),
                                                    segment.update(dp=4, tp=1)),
    "schedule.sub_batches": lambda document, segment: (document["schedule"].update(sub_batches=2),
                                                       segment.update(cp=2, dp=1)),
    "switches": lambda document, segment: segment.update(cp=2, dp=1, switches={"offload_optimizer": True}),
    "alternate_dimension": lambda document, segment: segment.update(alternate_dimension=[[1, 3]]),
    "switches.lazy_prefetch": lambda document, segment: segment.update(
        sharded="gradients", switches={"offload_optimizer": True, "partition_parameters": [[3, 8]], "lazy_prefetch": [[0, 8]]}),
    "switches.partition_parameters": lambda document, segment: segment.update(
        sharded="optimizer", switches={"partition_parameters": [[0, 8]]}),
}


def spoiled(generator, document):
    """The plan, at times with one thing more or one that does not fit."""
    segments = [segment for stage in document["stages"] for segment in stage["segments"]]
    segment = generator.choice(segments)
    change = generator.choice([None, None, None, "cp", "alternate", "switch", "sharded", "degree", "sliced", "parts", "microbatch"])
    if change == "cp":
        segment["cp"] = 2
    elif change == "alternate":
        segment["alternate_dimension"] = [segment["operators"]]
    elif change == "switch":
        name = generator.choice(["offload_hidden", "partition_parameters", "lazy_prefetch", "economical_forward",
                                 "economical_backward", "segment_sync"])
        segment.setdefault("switches", {"offload_optimizer": True})[name] = [segment["operators"]]
    elif change == "sharded":
        segment.update(sharded=generator.choice(["optimizer", "gradients", "parameters"]), sharded_degree=0)
    elif change == "degree":
        segment.update(sharded="parameters", sharded_degree=generator.choice([1, 2, 3, 4]))
    elif change == "sliced":
        document["schedule"]["sliced_microbatches"] = generator.randint(1, 4)
    elif change == "parts":
        document["schedule"].update(sub_batches=generator.choice([1, 2, 3, 4]), cross_pass=generator.random() < 0.5)
    elif change == "microbatch":
        document["microbatch"] = generator.choice([1, 2, 3, 4, 6, 12])
    return document


if __name__ == "__main__":
    unittest.main()
