"""The job's side of a live plan change, as a state machine without a socket.

One rank's view: what was proposed, what of it this rank accepted, what is committed and due. A commit may reach one
rank and never another, so nothing here acts on a commit: offer() only says what this rank could do, and the ranks
agree among themselves. Owned by one thread.

A thrown kill switch holds the ranks to the incumbent: trials' plans are refused, their commits are not offered, and a
rank that runs one asks all to go back. One rank's switch is enough, because the ranks take the minimum.
"""
import dataclasses

PROPOSALS_KEPT = 8


@dataclasses.dataclass(frozen=True)
class Change:
    """All ranks agree on it: switch to `plan` before the next step."""

    epoch: int
    plan: dict


class Refused(Exception):
    """Raised by a validate callback: this rank cannot run the plan."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


class PlanChange:
    def __init__(self, epoch, launch_plan=lambda: None):
        """`launch_plan` reads the document that the ranks were launched with, or gives None."""
        self.active_epoch = epoch
        self.highest_epoch = epoch  # A failed epoch is not active any more, and must never come back.
        self._incumbent_epoch = epoch
        self._incumbent_plan = launch_plan
        self._held = False
        self._went_back = False  # Tried once for each time that the switch is thrown.
        self._accepted = {}
        self._incumbents = set()  # Of the accepted.
        self._committed = {}

    @property
    def runs_incumbent(self):
        return self.active_epoch == self._incumbent_epoch

    def hold(self, held):
        """The kill switch is thrown, or not."""
        self._went_back = self._went_back and held
        self._held = held

    def propose(self, epoch, plan, step, validate, incumbent=False):
        """The answer to a proposal, or None where it is too old to be answered."""
        if epoch <= self.highest_epoch:
            if incumbent and epoch == self.active_epoch:
                self.keep(epoch, lambda: plan)
            return None
        self.cancel(epoch)
        try:
            if not isinstance(plan, dict):
                raise Refused("invalid_plan", "plan must be an object")
            if self._held and not incumbent:
                raise Refused("kill_switch", "the kill switch is thrown: the ranks stay on the incumbent")
            if validate is not None:
                validate(plan)
        except Exception as error:  # Whatever is wrong with a plan, the answer is no, with the reason.
            reason = getattr(error, "reason", "invalid_plan")
            return {"type": "plan_refuse", "epoch": epoch, "reason": str(reason), "message": str(error)[:2000]}
        self._accepted[epoch] = plan
        if incumbent:
            self._incumbents.add(epoch)
        while len(self._accepted) > PROPOSALS_KEPT:
            self.cancel(min(self._accepted))
        return {"type": "plan_ack", "epoch": epoch, "step": step}

    def keep(self, epoch, plan=lambda: None):
        """The plan of `epoch` is the incumbent; `plan` gives its document, or None where it is not known."""
        self._incumbent_epoch = epoch
        self._incumbent_plan = plan

    def commit(self, epoch, step):
        if epoch in self._accepted:
            self._committed[epoch] = step

    def cancel(self, epoch):
        self._accepted.pop(epoch, None)
        self._committed.pop(epoch, None)
        self._incumbents.discard(epoch)

    def offer(self, step):
        """The highest epoch that this rank could be in at `step`; below 0: it asks to go back to an incumbent."""
        if self._wants_back():
            return -1 - self._incumbent_epoch
        return max((epoch for epoch in self._committed if self._may_enter(epoch, step)), default=self.highest_epoch)

    def decide(self, step, agree):
        """The change that all ranks make before `step`, or None. Calls `agree` once, twice where one is in sight.

        The minimum of the offers may be an epoch that a rank with a higher offer never held: a second round confirms
        it. All ranks see the same minimum, so all of them enter that round or none.
        """
        agreed = agree(self.offer(step))
        if agreed < 0:
            return self._go_back(-1 - agreed, agree)
        if agreed <= self.highest_epoch:
            return None
        if agree(agreed if self._may_enter(agreed, step) else self.highest_epoch) != agreed:
            return None
        plan = self._accepted[agreed]
        if agreed in self._incumbents:
            self.keep(agreed, lambda: plan)
        for epoch in [epoch for epoch in self._accepted if epoch <= agreed]:
            self.cancel(epoch)
        self.highest_epoch = agreed
        return Change(agreed, plan)

    def _may_enter(self, epoch, step):
        held_back = self._held and epoch not in self._incumbents
        return not held_back and epoch in self._committed and self._committed[epoch] <= step

    def _wants_back(self):
        return self._held and not self._went_back and self.active_epoch != self._incumbent_epoch

    def _go_back(self, epoch, agree):
        """A rank's kill switch is thrown while a trial's plan runs: all return to the incumbent, or none does."""
        plan = self._incumbent_plan() if epoch == self._incumbent_epoch != self.active_epoch else None
        self._went_back = self._held
        return Change(epoch, plan) if agree(int(isinstance(plan, dict))) else None
