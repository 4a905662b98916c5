"""A script's own log of its steps: what a card says is held against it."""

import statistics

WARM = 3  # Steps that a script's first calls make longer. Cards leave them out.
NEAR = 0.05


def assert_near_own_log(test, told_ms, took_ms):
    """What is told of all steps is near the median of `took_ms`, the script's own times of steps, evaluation left out."""
    own = statistics.median(took_ms[WARM:])
    test.assertLess(abs(told_ms / own - 1), NEAR, f"{told_ms} ms are told, the script's own median is {own} of {took_ms}")
