"""The order in which a rank does the passes of its stages, as pure functions.

Stages go round `seats` groups of ranks: stage s is on seat s modulo seats. But for the interleaved schedule there are as
many seats as stages.
"""
import dataclasses

FORWARD, BACKWARD = "forward", "backward"


@dataclasses.dataclass(frozen=True)
class Action:
    kind: str
    stage: int
    microbatch: int
    # Batches that are passed together, each the numbers of the parts of the microbatch that it consists of.
    batches: tuple = ((0,),)


def warm_up_of(schedule, seat, seats, stages, microbatches):
    """Forward passes that a seat does before its first backward pass, the one that goes with it left out."""
    after = seats - seat - 1
    of_kind = {"1f1b": after, "interleaved": 2 * after + stages - seats, "gpipe": stages // seats * microbatches}
    return min(of_kind[schedule.kind], stages // seats * microbatches)


def actions(schedule, seat, seats, stages, microbatches):
    """The seat's Actions of one step.

    The first `sliced_microbatches` are passed on in two halves as long as the stages warm up (AutoPipe, section III-C):
    a stage takes microbatch j in halves where j is no later than the last of its warm-up, and their backward pass is
    whole again. Sub-batches are the parts of every microbatch, passed together.
    """
    warm_up = warm_up_of(schedule, seat, seats, stages, microbatches)
    result = []
    for kind, stage, microbatch in order_of(schedule, seat, seats, stages, microbatches):
        parts = range(schedule.parts_of(microbatch))
        apart = tuple((part,) for part in parts)
        if len(parts) == 1 or schedule.sub_batches > 1 or (kind == BACKWARD and microbatch <= warm_up):
            result.append(Action(kind, stage, microbatch, apart))
        elif microbatch <= warm_up:
            result += [Action(kind, stage, microbatch, (half,)) for half in apart]
        else:
            result.append(Action(kind, stage, microbatch, (tuple(parts),)))
    return result


def order_of(schedule, seat, seats, stages, microbatches):
    """[(pass, stage, microbatch)] of the seat: warm-up forwards, then one forward and one backward in turn, then the last
    backwards. Of several stages on a seat each takes as many microbatches in turn as there are seats (interleaved 1F1B,
    Narayanan et al. 2021, section 2.2); backwards the last stage is the first.

    Every stage does its forwards in order and its backwards in order, so transfers between two stages match by order
    alone. With sends that do not wait, no cycle of waiting can arise: at any number of microbatches where a seat has one
    stage, else where seats divide them.
    """
    rounds = stages // seats
    warm_up, passes = warm_up_of(schedule, seat, seats, stages, microbatches), rounds * microbatches

    def nth(kind, number):
        group, within = divmod(number, seats * rounds)
        turn = within // seats
        return kind, (turn if kind == FORWARD else rounds - 1 - turn) * seats + seat, group * seats + number % seats

    order = [nth(FORWARD, number) for number in range(warm_up)]
    for number in range(passes - warm_up):
        order += [nth(FORWARD, warm_up + number), nth(BACKWARD, number)]
    return order + [nth(BACKWARD, number) for number in range(passes - warm_up, passes)]
