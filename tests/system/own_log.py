"""A script's own log of its steps: what a card says is held against it."""

import statistics

WARM = 3  # Steps that a script's first calls make longer. Cards leave them out.
NEAR = 0.05


def assert_near_own_log(test, told_ms, took_ms):
    """What is told of all steps is near the median of `took_ms`, the script's own times of steps, evaluation left out."""
    steady = took_ms[WARM:]
    own = statistics.median(steady)
    # A card leaves out a step here and there: the medians differ by about the error that each has.
    first, _, third = statistics.quantiles(steady, n=4)
    error = 1.25 * (third - first) / 1.35 / len(steady) ** 0.5 / own
    test.assertLess(abs(told_ms / own - 1), NEAR + error,
                    f"{told_ms} ms are told, the script's own median is {own} of {took_ms}, sure to {error:.1%}")
