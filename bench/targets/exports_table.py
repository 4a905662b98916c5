"""Which knobs of plans frameworks' own code accepted as they were exported, and which wrong plans were refused: makes bench/results/exports.md.

    TRIMTAB_SOURCES=FOLDER TRIMTAB_TEST_PYTHON="$(scripts/setup --frameworks)/bin/python" bench/targets/exports_table.py \
        [--build build/release] > bench/results/exports.md

It runs tests/frameworks/test_exports.py, test_refusals.py and test_round_trip.py of tests/targets, and counts what they did. FOLDER has Megatron-LM's
sources as Megatron-LM, Galvatron's as Galvatron and torchtitan's wheel of 0.2.2 as torchtitan-0.2.2. Where a test fails or is skipped, there is no table.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / name) for name in ("frameworks", "targets")]
PACKAGES = {"deepspeed": "deepspeed", "transformers": "transformers", "accelerate": "accelerate", "lightning": "lightning", "torchtitan": "torchtitan",
            "pipelining": "torch"}


def knobs_of(plan):
    """What the plan sets other than one device that does all as plainly as it can."""
    segments = [segment for stage in plan["stages"] for segment in stage["segments"]]
    yield "any plan"
    if len(plan["stages"]) > 1:
        yield "stages"
    if plan["schedule"]["kind"] != "1f1b":
        yield f"schedule.kind {plan['schedule']['kind']}"
    for knob in ("dp", "tp", "cp"):
        if any(segment.get(knob, 1) > 1 for segment in segments):
            yield f"segments.{knob}"
    for level in sorted({segment.get("sharded", "none") for segment in segments} - {"none"}):
        yield f"segments.sharded {level}"
    if any(segment.get("sharded_degree") not in (None, 0, segment.get("dp")) for segment in segments):
        yield "segments.sharded_degree"
    if any(segment.get("recompute") for segment in segments):
        yield "segments.recompute"
    if not all(segment.get("tp_consecutive", True) for segment in segments):
        yield "segments.tp_consecutive"
    for switch in sorted({switch for segment in segments for switch, value in segment.get("switches", {}).items() if value}):
        yield f"switches.{switch}"
    for knob in sorted(plan.get("target_knobs", {})):
        yield f"target_knobs.{knob}"


def added(worse, cases):
    """What the wrong case has that the accepted one nearest to it has not."""
    def lines(case):
        return collections.Counter(json.dumps(case, indent=0).replace("\\n", "\n").splitlines())

    nearest = min((lines(worse) - lines(case) for case in cases), key=lambda more: sum(more.values()))
    return ", ".join(sorted(line.strip().rstrip(",") for line in nearest))


class Record:
    def __init__(self, needed):
        self.needed = needed  # knob: the one without which nobody can set it
        self.exported = []  # (target, plan) that wait for the framework's word
        self.accepted, self.read_back = collections.Counter(), collections.Counter()  # (knob, target)
        self.judges = {}  # target: who accepted
        self.wrong = {}  # (who, the objection's kind): what was wrong, the objection
        self.refused = {}  # (place, whose rule, reason): targets
        self.knobs_refused = set()  # (knob, target), by the target's own rule

    def judged(self, script, folder, cases, objections):
        who = judge(script, folder)
        plans, self.exported = self.exported, []
        for (target, plan), objection in zip(plans, objections):
            assert objection == "", objection
            self.judges[target] = who
            self.accepted.update((knob, target) for knob in knobs_of(plan))
        if plans:
            self._cases = cases[:len(plans)]
        for case, objection in zip(cases[len(plans):], objections[len(plans):]):
            self.wrong.setdefault((who, re.sub(r"\d+", "", objection)), (added(case, self._cases), re.sub(r"/tmp/\S+/", "", objection)))

    def refusal(self, target, plan, said):
        """Each complaint, without which stage it was. A refusal by the rules of all plans is told as such."""
        whose = "a rule of all plans" if " breaks " in said.splitlines()[0] else "the target"
        for line in dict.fromkeys(line.strip() for line in said.splitlines() if line.startswith("  ")):
            place, _, reason = re.sub(r"stages\[\d+\]\.", "", line).replace("segments[0]", "segments").replace("segments.switches", "switches").partition(": ")
            reason = re.sub(r"(?<=[ (])\d+\b(?!\.\d)", "N", reason).replace("|", "or")
            self.refused.setdefault((place, whose, reason), set()).add(target)
            if whose == "the target":
                self.knobs_refused |= {(knob, target) for knob in [one for one in knobs_of(plan) if place in (one.split(" ")[0], self.needed.get(one))] or [place]}


def revision(folder):
    done = subprocess.run(["git", "-C", folder, "log", "-1", "--format=%h of %as"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def judge(script, folder):
    from test_exports import PYTHON

    name = script.removesuffix("_validates.py")
    if folder:
        return f"{pathlib.Path(folder).name} {revision(folder)}".strip()
    look = f"import importlib.metadata as m; print(m.version({PACKAGES[name]!r}))"
    return f"{PACKAGES[name]} {subprocess.run([PYTHON, '-c', look], capture_output=True, text=True, check=True).stdout.strip()}"


def recording(record):
    """The tests' own classes, with what passes through them written down."""
    import test_exports
    import test_refusals
    import test_round_trip

    class Exports(test_exports.Exports):
        def setUp(self):
            super().setUp()
            record.exported.clear()

        def exported(self, target, *arguments):
            for shape, plan, written in super().exported(target, *arguments):
                record.exported.append((target, plan))
                yield shape, plan, written

        def check(self, script, cases, *arguments, **environment):
            objections = super().check(script, cases, *arguments, **environment)
            record.judged(script, *arguments or (None,), cases, objections)
            return objections

    class Refusals(test_refusals.Refusals):
        def export(self, plan, model, target):
            done = super().export(plan, model, target)
            if done.returncode != 0:
                assert done.stdout == "", done.stdout
                record.refusal(target, plan, done.stderr)
            return done

    class RoundTrip(test_round_trip.RoundTrip):
        def export(self, plan, model, target):
            record.read_back.update((knob, target) for knob in knobs_of(plan))
            return super().export(plan, model, target)

    return Exports, Refusals, RoundTrip


def print_tables(record, targets):
    print("# Knobs of plans, by target\n")
    print("Made by `bench/targets/exports_table.py`, from what `tests/frameworks/test_exports.py`, `tests/targets/test_refusals.py` and")
    print("`tests/targets/test_round_trip.py` ran.\n")
    print("Random plans are exported, and a cell counts those that set the knob. A plain number: the framework's own code accepted them, and said the")
    print("same of batch, degrees and states where it says it. In brackets: a reader of the tests read the same back, and no code of the framework was")
    print("asked. \"refused\": a plan that sets it was refused by its name, and nothing was written (where ranks are not tensor-parallel, their order is\n"
          "refused with that).\n")
    knobs = {knob for knob, target in [*record.accepted, *record.read_back, *record.knobs_refused] if target in targets}
    knobs -= {"devices", "microbatch", "segments.operators", "segments.sharded"}  # of every plan: what is refused of them stands in the last table
    print(f"| knob | {' | '.join(targets)} |\n| --- |{' ---: |' * len(targets)}")
    for knob in sorted(knobs):
        cells = [str(record.accepted[knob, target] or "") or (f"({record.read_back[knob, target]})" if record.read_back[knob, target] else "")
                 or ("refused" if (knob, target) in record.knobs_refused else "") for target in targets]
        print(f"| {knob} | {' | '.join(cells)} |")
    print("\n## Who accepted\n\n| target | the framework's own code of | plans |\n| --- | --- | ---: |")
    for target in targets:
        print(f"| {target} | {record.judges.get(target, 'not asked')} | {record.accepted['any plan', target]} |")
    print("\n## What was made wrong, and what the framework's code then said\n\n| framework | wrong | it says |\n| --- | --- | --- |")
    for (who, _), (wrong, objection) in record.wrong.items():
        print(f"| {who} | `{wrong}` | {objection.splitlines()[0][:200].replace('|', 'or')} |")
    print("\n## What is refused before anything is written\n\n| field | by | reason | targets |\n| --- | --- | --- | --- |")
    for (place, whose, reason), said in sorted(record.refused.items()):
        print(f"| {place} | {whose} | {reason} | "
              f"{'all' if said >= set(targets) else ', '.join(sorted(said))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    os.environ["TRIMTAB_BUILD"] = str(parser.parse_args().build.resolve())
    import test_refusals

    record = Record(test_refusals.NEEDED)
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(load, recording(record))))
    if not result.wasSuccessful() or result.skipped:
        sys.exit(f"no table: {len(result.failures) + len(result.errors)} tests failed, {len(result.skipped)} were skipped")
    import random_plans

    print_tables(record, list(random_plans.GENERATORS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
