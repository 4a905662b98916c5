"""What collecting costs a process, by its own steps: those that were recorded beside those around them that were not. The
controller leaves itself out of steps, and records none while no agent is there. Two processes differ by more than what is
looked for. Pure: times are nanoseconds of one clock."""
import bisect
import itertools
import statistics

from .arms import LEAST_PAIRS
from .paired import percentile, ratio_of
from .sections import Failed, NotShown

REACH_NS = 2_000_000  # Switching on and off reaches a little beyond what is recorded.
BESIDE = 4  # Steps on each side that a recorded one is compared with, at least.
RECORDED, QUIET, AWAY = "recorded", "quiet", "away"


def between(windows, begin, end):
    """The spans from `begin` to `end` in none of the windows."""
    spans, at = [], begin
    for since, until in sorted(windows):
        if since > at:
            spans.append((at, min(since, end)))
        at = max(at, until)
    return [*spans, (at, end)] if at < end else spans


def marked(steps, recorded, away=()):
    """[(what it is, length)] of steps (begin, end) in order. `recorded`: spans in which something was. `away`: spans in
    which nothing could be, which are no part of the time that the cost is a share of. Spans of a kind do not overlap."""
    def touched_by(spans, reach):
        ordered = sorted(spans)
        ends = [end + reach for _, end in ordered]

        def touched(step):
            next_one = bisect.bisect_right(ends, step[0])
            return next_one < len(ends) and ordered[next_one][0] - reach < step[1]
        return touched

    in_recorded, in_away = touched_by(recorded, REACH_NS), touched_by(away, 0)
    return [(RECORDED if in_recorded(step) else AWAY if in_away(step) else QUIET, step[1] - step[0]) for step in steps]


def pairs(marks):
    """[(time beyond that of steps beside them, time)] of each stretch of recorded steps that has others on both sides. The
    time reaches to the next stretch."""
    runs = [(recorded, list(run)) for recorded, run in itertools.groupby(marks, lambda mark: mark[0] == RECORDED)]
    found = []
    for (_, before), (recorded, run), (_, after) in zip(runs, runs[1:], runs[2:]):
        if not recorded or min(len(before), len(after)) < BESIDE:
            continue
        usual = statistics.fmean((mean_length(before[-_beside(before, run):]), mean_length(after[:_beside(after, run)])))
        spent = sum(length for _, length in run)
        found.append((spent - len(run) * usual, spent + sum(length for mark, length in after if mark == QUIET)))
    return found


def _beside(others, run):
    """How many of the steps between two stretches one of them is compared with: half at most, so that pairs share no chance."""
    return max(BESIDE, min(len(run), len(others) // 2))


def mean_length(marks):
    return statistics.fmean(length for _, length in marks)


def share(found):
    """Of the time of some pairs, what recording took."""
    return sum(excess for excess, _ in found) / sum(time for _, time in found)


def cost(steps, recorded, away=()):
    """What collecting took, as a share of the time that it was on, and what steps were like."""
    marks = marked(steps, recorded, away)
    lengths = {what: [length for mark, length in marks if (mark == RECORDED) == (what == RECORDED)] for what in (RECORDED, QUIET)}
    found = pairs(marks)
    if not found:
        raise Failed(f"{len(lengths[RECORDED])} of {len(steps)} steps were recorded, and no stretch of them with {BESIDE} others "
                     "on both sides")
    return {"share": ratio_of(found, share).document(), "steps": len(steps), "recorded_steps": len(lengths[RECORDED]),
            "quiet_step_ns": statistics.median(lengths[QUIET]),
            "p99_ns": {what: percentile(values, 0.99) for what, values in lengths.items()}}


def judge(share, limit, least=LEAST_PAIRS):
    """Raises Failed where the share is above the limit, NotShown where its interval is too wide or too few pairs made it."""
    text = f"{percent(share['low'])} to {percent(share['high'])} by {share['pairs']} pairs, {percent(limit)} are allowed"
    if share["pairs"] >= least and share["low"] > limit:
        raise Failed(text)
    if share["pairs"] < least or share["high"] - share["low"] > limit:
        raise NotShown(text)
    if share["high"] > limit:
        raise Failed(text)


def percent(share):
    return f"{100 * share:.2f} %"
