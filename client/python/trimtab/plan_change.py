"""The job's side of a live plan change, as a state machine without a socket.

One rank's view: what was proposed, what of it this rank accepted, what is committed and due. A commit may reach one
rank and never another, so nothing here acts on a commit: offer() only says what this rank could do, and the ranks
agree among themselves. Owned by one thread.
"""
import dataclasses

PROPOSALS_KEPT = 8


@dataclasses.dataclass(frozen=True)
class Change:
    """All ranks hold this commit: switch to `plan` before the next step."""

    epoch: int
    plan: dict


class Refused(Exception):
    """Raised by a validate callback: this rank cannot run the plan."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


class PlanChange:
    def __init__(self, epoch):
        self.active_epoch = epoch
        self.highest_epoch = epoch  # A failed epoch is not active any more, and must never come back.
        self._accepted = {}
        self._committed = {}

    def propose(self, epoch, plan, step, validate):
        """The answer to a proposal, or None where it is too old to be answered."""
        if epoch <= self.highest_epoch:
            return None
        self.cancel(epoch)
        try:
            if not isinstance(plan, dict):
                raise Refused("invalid_plan", "plan must be an object")
            if validate is not None:
                validate(plan)
        except Exception as error:  # Whatever is wrong with a plan, the answer is no, with the reason.
            reason = getattr(error, "reason", "invalid_plan")
            return {"type": "plan_refuse", "epoch": epoch, "reason": str(reason), "message": str(error)[:2000]}
        self._accepted[epoch] = plan
        while len(self._accepted) > PROPOSALS_KEPT:
            self.cancel(min(self._accepted))
        return {"type": "plan_ack", "epoch": epoch, "step": step}

    def commit(self, epoch, step):
        if epoch in self._accepted:
            self._committed[epoch] = step

    def cancel(self, epoch):
        self._accepted.pop(epoch, None)
        self._committed.pop(epoch, None)

    def offer(self, step):
        """The highest epoch that this rank could be in at `step`."""
        return max((epoch for epoch, due in self._committed.items() if due <= step), default=self.highest_epoch)

    def decide(self, step, agree):
        """The change that all ranks make before `step`, or None. Calls `agree` once, twice where one is in sight.

        The minimum of the offers may be an epoch that a rank with a higher offer never held: a second round confirms
        it. All ranks see the same minimum, so all of them enter that round or none.
        """
        agreed = agree(self.offer(step))
        if agreed <= self.highest_epoch:
            return None
        holds = agreed in self._committed and self._committed[agreed] <= step
        if agree(agreed if holds else self.highest_epoch) != agreed:
            return None
        plan = self._accepted[agreed]
        for epoch in [epoch for epoch in self._accepted if epoch <= agreed]:
            self.cancel(epoch)
        self.highest_epoch = agreed
        return Change(agreed, plan)
