"""The 1F1B order of one stage, as a pure function."""

FORWARD, BACKWARD = "forward", "backward"


def one_forward_one_backward(stage, stages, microbatches):
    """[(pass, microbatch)]: warm-up forwards, then one forward and one backward in turn, then the last backwards.

    Every stage does its forwards in order and its backwards in order, so transfers between two ranks match by order
    alone. With sends that do not wait, no cycle of waiting can arise at any number of microbatches.
    """
    warmup = min(stages - stage - 1, microbatches)
    order = [(FORWARD, m) for m in range(warmup)]
    for m in range(microbatches - warmup):
        order += [(FORWARD, warmup + m), (BACKWARD, m)]
    return order + [(BACKWARD, m) for m in range(microbatches - warmup, microbatches)]
