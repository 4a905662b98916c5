"""Estimates where one measured step of the same machine and model is given: what a user knows who has run one plan.

Rows of one cell, model, GPU, number of GPUs and sequence stand together, unflagged and timed ones alone. Up to GIVEN of them,
spread over the group, are given, one at a time. All others are asked again with it. `given_one.NAME` has the errors of all
these answers, the number of groups, `before`: the mean error of the same rows with nothing given, and `first_choice`: the
mean error where the plan is given that is predicted to be the fastest, which a user would run first.
"""

import collections
import dataclasses
import statistics

from published_answers import estimates
from published_scores import errors, predicted_rate, predicted_step

GIVEN = 5


def given_one(rows, answers, command, asking=estimates):
    groups = _groups(rows, answers)
    asked, notes = [], []  # of a note: error with nothing given, and whether the first choice is given
    for members in groups.values():
        first = min(members, key=lambda pair: (predicted_step(pair[1]) <= 0, -predicted_rate(*pair)))[0]
        chosen = [row for row, _ in spread(members, GIVEN)]
        for given in chosen + ([] if any(row is first for row in chosen) else [first]):
            measured = [{"step_s": given.step_s, "plan": given.question["plan"]}]
            for row, answer in members:
                if row is not given:
                    asked.append(dataclasses.replace(row, question={**row.question, "measured": measured}))
                    before = abs(predicted_step(answer) / row.step_s - 1)
                    notes.append((before, given is first, any(given is one for one in chosen)))
    return _by_family(asked, asking(asked, command), notes, collections.Counter(name[0] for name in groups))


def _by_family(asked, answers, notes, groups):
    found = collections.defaultdict(lambda: ([], [], []))
    for row, answer, (before, first, chosen) in zip(asked, answers, notes):
        values, earlier, firsts = found[row.family]
        pair = (predicted_step(answer), row.step_s)
        if chosen:
            values.append(pair)
            earlier.append(before)
        if first:
            firsts.append(pair)
    return {
        name: {
            "groups": groups[name],
            "before": statistics.fmean(earlier),
            "first_choice": errors(firsts)["mean"],
            **errors(values),
        }
        for name, (values, earlier, firsts) in sorted(found.items())
    }


def _groups(rows, answers):
    groups = collections.defaultdict(list)
    for row, answer in zip(rows, answers):
        if row.clean and row.step_s and row.cell and row.question:
            get = row.columns.get
            groups[row.family, row.cell, *(get(name, "") for name in ("model", "gpu", "gpus", "seq"))].append((row, answer))
    return {name: members for name, members in groups.items() if len(members) > 1}


def spread(members, count):
    """`count` of them, or all if there are fewer: the first, the last, and some between."""
    if len(members) <= count:
        return members
    return [members[round(index * (len(members) - 1) / (count - 1))] for index in range(count)]
