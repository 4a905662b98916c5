"""A claim, judged on a history: at most one plan is in force in a job, at any time. What counts is what ranks ran. Pure."""
import collections

from history import Violation, of_kind, operations

ONE_PLAN = "at most one plan is in force in a job"


def violations(records):
    yield from _one_plan_of_an_epoch(records)
    yield from _one_epoch_of_a_step(records)
    yield from _one_process_of_a_rank(records)
    yield from _one_launch(records)
    yield from _none_under_a_kill_switch(records)


def _first_of_others(records, group, value):
    """(first, other) wherever records of one group have another value than its first record."""
    first = {}
    for record in records:
        before = first.setdefault(group(record), record)
        if value(before) != value(record):
            yield before, record


def _one_plan_of_an_epoch(records):
    for before, other in _first_of_others(of_kind(records, "told"), lambda told: (told["job"], told["epoch"]),
                                          lambda told: told["plan"]):
        yield Violation(ONE_PLAN, f"job {other['job']}: epoch {other['epoch']} is two plans", [before, other])


def _one_epoch_of_a_step(records):
    steps = of_kind(records, "step")
    for before, other in _first_of_others(steps, lambda step: (step["job"], step["variant"], step["launch"], step["step"]),
                                          lambda step: step["epoch"]):
        yield Violation(ONE_PLAN, f"job {other['job']}: ranks made step {other['step']} of launch {other['launch']} under two plans",
                        [before, other])


def _one_process_of_a_rank(records):
    told = of_kind(records, "told")
    for before, other in _first_of_others(told, lambda told: (told["job"], told["variant"], told["launch"], told["rank"]),
                                          lambda told: told["pid"]):
        yield Violation(ONE_PLAN, f"job {other['job']}: two processes were rank {other['rank']} of launch {other['launch']}",
                        [before, other])


def _one_launch(records):
    """No step of a job's own launch is made once a later launch has made one."""
    steps = sorted((step for step in of_kind(records, "step") if not step["variant"]), key=lambda step: step["at"])
    latest, wrong = {}, set()
    for step in steps:
        before = latest.get(step["job"])
        if before and step["launch"] < before["launch"] and (step["job"], step["launch"]) not in wrong:
            wrong.add((step["job"], step["launch"]))
            yield Violation(ONE_PLAN, f"job {step['job']}: launch {step['launch']} trains beside launch {before['launch']}",
                            [before, step])
        if not before or step["launch"] > before["launch"]:
            latest[step["job"]] = step


def _none_under_a_kill_switch(records):
    """A rank looks at its node's switch between two steps, so none that looked after it was thrown begins a trial's plan."""
    thrown = collections.defaultdict(list)
    for one in operations(records).values():
        if one.asked["asks"] in ("throw", "release"):
            thrown[one.asked["where"]].append(one)
    for told in of_kind(records, "told"):
        if told["incumbent"] or told["asked"] is None:
            continue
        for throw in thrown[told["node"]]:
            released = [one.begin for one in thrown[told["node"]] if one.asked["asks"] == "release" and one.begin > throw.begin]
            if throw.asked["asks"] == "throw" and throw.end < told["asked"] and told["at"] < min(released, default=told["at"] + 1):
                yield Violation(ONE_PLAN, f"job {told['job']}: rank {told['rank']} began a trial's plan although the kill switch of "
                                f"node {told['node']} was thrown", [*throw.records, told])
