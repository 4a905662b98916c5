"""Whether something grows: slopes that single outliers do not move, over samples of processes that have settled."""
import itertools
import statistics

SETTLED_S = 15     # of a process; before that its caches fill
MOST_POINTS = 200  # a slope looks at every pair of them


def settled(samples, daemon, begin, end):
    return [s for s in samples if s.daemon == daemon and s.age >= SETTLED_S and begin <= s.t <= end]


def slope(points):
    """Per second: the median over all pairs of (t, value). 0 where there are too few."""
    step = max(1, len(points) // MOST_POINTS)
    chosen = points[::step]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(chosen, 2) if b[0] - a[0] > 1]
    return statistics.median(slopes) if slopes else 0.0


def thirds(points):
    """Medians of the first and of the last third."""
    third = max(1, len(points) // 3)
    return statistics.median(v for _, v in points[:third]), statistics.median(v for _, v in points[-third:])
