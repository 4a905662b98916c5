"""Statistics of runs in pairs: medians, high percentiles, and how sure a ratio is. Pure."""
import dataclasses
import math
import random
import statistics

RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The median of paired ratios with its 95 % bootstrap interval."""

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


def median_ratio(ratios, seed=1):
    """A Ratio of the values given; raises ValueError where there are none."""
    if not ratios:
        raise ValueError("no pairs")
    generator = random.Random(seed)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    edge = RESAMPLES // 40
    return Ratio(statistics.median(ratios), medians[edge], medians[-1 - edge], len(ratios))


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
