"""The plans that a job ran before the present one: what it returns to where the present one fails. Pure.

A plan that comes back is no step forward: what ran since (a candidate that was tried and left) is forgotten, and the
plan before it is the one to return to again.
"""
KEPT = 8


class EarlierPlans:
    def __init__(self, plans=()):
        self._plans = tuple(plans)  # (plan, epoch), the latest last.

    @property
    def latest(self):
        """(plan, epoch), or (None, 0)."""
        return self._plans[-1] if self._plans else (None, 0)

    def without_latest(self):
        return EarlierPlans(self._plans[:-1])

    def after(self, present, epoch, wanted):
        """Those before `wanted` once it has taken the place of `present`, which runs as `epoch`."""
        digests = [plan.digest for plan, _ in self._plans]
        if wanted.digest != present.digest and wanted.digest in digests:
            return EarlierPlans(self._plans[: digests.index(wanted.digest)])
        others = [one for one in self._plans if one[0].digest != present.digest]
        return EarlierPlans([*others, (present, epoch)][-KEPT:])
