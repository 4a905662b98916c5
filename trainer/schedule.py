"""The order in which a stage does its passes, as pure functions."""
import dataclasses

FORWARD, BACKWARD = "forward", "backward"


@dataclasses.dataclass(frozen=True)
class Action:
    kind: str
    microbatch: int
    # Batches that are passed together, each the numbers of the parts of the microbatch that it consists of.
    batches: tuple = ((0,),)


def warm_up_of(stage, stages, microbatches):
    """Forward passes that a stage does before its first backward pass, the one that goes with it left out."""
    return min(stages - stage - 1, microbatches)


def actions(schedule, stage, stages, microbatches):
    """The stage's Actions of one step.

    The first `sliced_microbatches` are passed on in two halves as long as the stages warm up (AutoPipe, section III-C):
    a stage takes microbatch j in halves where j is no later than the last of its warm-up, and their backward pass is
    whole again. Sub-batches are the parts of every microbatch, passed together.
    """
    warm_up = warm_up_of(stage, stages, microbatches)
    result = []
    for kind, microbatch in order_of(schedule, stage, stages, microbatches):
        parts = range(schedule.parts_of(microbatch))
        apart = tuple((part,) for part in parts)
        if len(parts) == 1 or schedule.sub_batches > 1 or (kind == BACKWARD and microbatch <= warm_up):
            result.append(Action(kind, microbatch, apart))
        elif microbatch <= warm_up:
            result += [Action(kind, microbatch, (half,)) for half in apart]
        else:
            result.append(Action(kind, microbatch, (tuple(parts),)))
    return result


def order_of(schedule, stage, stages, microbatches):
    """[(pass, microbatch)] of the stage."""
    if schedule.kind == "gpipe":
        return [(kind, m) for kind in (FORWARD, BACKWARD) for m in range(microbatches)]
    return one_forward_one_backward(stage, stages, microbatches)


def one_forward_one_backward(stage, stages, microbatches):
    """[(pass, microbatch)]: warm-up forwards, then one forward and one backward in turn, then the last backwards.

    Every stage does its forwards in order and its backwards in order, so transfers between two ranks match by order
    alone. With sends that do not wait, no cycle of waiting can arise at any number of microbatches.
    """
    warmup = warm_up_of(stage, stages, microbatches)
    order = [(FORWARD, m) for m in range(warmup)]
    for m in range(microbatches - warmup):
        order += [(FORWARD, warmup + m), (BACKWARD, m)]
    return order + [(BACKWARD, m) for m in range(microbatches - warmup, microbatches)]
