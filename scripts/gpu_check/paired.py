"""Statistics of runs in pairs: medians, high percentiles, and how sure a ratio is. Pure."""
import dataclasses
import math
import random
import statistics

RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class Ratio:
    """What pairs say together, with its 95 % bootstrap interval, widened for their number."""

    value: float
    low: float
    high: float
    pairs: int

    def document(self):
        return dataclasses.asdict(self)


def percentile(values, share):
    """The smallest value that at least `share` of the values do not exceed."""
    if not values:
        raise ValueError("a percentile needs a value")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ratio_of(pairs, together, seed=1):
    """The Ratio that together(pairs) is; raises ValueError where there are none."""
    if not pairs:
        raise ValueError("no pairs")
    generator = random.Random(seed)
    values = sorted(together(generator.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    edge = round(RESAMPLES * _left_out(len(pairs)))
    return Ratio(together(pairs), values[edge], values[-1 - edge], len(pairs))


def _left_out(count):
    """What an end of the interval leaves of the resamples: they scatter less than few pairs do, by as much as a normal
    distribution lies within Student's (Hesterberg, What Teachers Should Know about the Bootstrap, 2015: expanded percentiles)."""
    if count < 2:
        return 0.0
    z, degrees = 1.96, count - 1
    student = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return statistics.NormalDist().cdf(-math.sqrt(count / degrees) * student)


def median_ratio(ratios):
    """The median of paired ratios."""
    return ratio_of(ratios, statistics.median)


def paired(rounds, arm, baselines, measure):
    """One ratio a round: the arm's measure over the mean of its round's baselines. Rounds that lack one are left out."""
    ratios = []
    for runs in rounds:
        base = [measure(runs[name]) for name in baselines if name in runs]
        if arm in runs and len(base) == len(baselines):
            ratios.append(measure(runs[arm]) / statistics.fmean(base))
    return ratios


def noise(rounds, first, second, measure):
    """The second baseline over the first, a ratio a round."""
    return [measure(runs[second]) / measure(runs[first]) for runs in rounds if first in runs and second in runs]
