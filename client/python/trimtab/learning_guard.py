"""Does training go on after a plan change as it went before? A plan must not change what is learnt; this watches that it
has not, by loss and gradient norm.

A step with a value that is not finite is enough. Otherwise several steps in a row have to lie clearly outside of all the
steps before the change, so no assumption on the noise is needed: where steps could as well have come in any other order,
`consecutive` given ones of them exceed `history` others with probability 1 / C(history + consecutive, consecutive). Over
a whole watch and its three questions that bounds a false alarm (false_alarm_rate()); a falling loss only makes it rarer.

Pure: no clock, no I/O. All ranks of a job that feed it the same numbers decide alike.
"""
import collections
import math


class LearningGuard:
    HISTORY = 24  # Steps before a change that the ones after it are compared with.
    HISTORY_LEAST = 16  # With fewer only what is not finite is noticed.
    CONSECUTIVE = 4
    WATCHED = 20  # Steps after a change, and after an adoption.
    NORM_FACTOR = 2.0  # A gradient norm must leave the range before by so much.

    def __init__(self):
        self._before = ()  # (loss, gradient norm) of the steps before the change that is watched.
        self._recent = collections.deque(maxlen=self.HISTORY)
        self._left = 0  # Steps still to watch.
        self._outside = {}  # Question -> how many steps in a row.

    @property
    def watching(self):
        return self._left > 0

    def changed(self):
        """A new plan runs from the next step on."""
        self._before = tuple(self._recent)
        self._left = self.WATCHED
        self._outside = {}

    def adopted(self):
        """The running plan was a trial's and stays: it is watched as long again, beside the steps before it began."""
        self._left = self.WATCHED

    def judge(self, loss, gradient_norm):
        """A step's values, over all ranks. Why the plan has to go, or None."""
        watched = self._left > 0
        if watched:
            self._left -= 1
            why = self._why(loss, gradient_norm)
            if why:
                return why
        if math.isfinite(loss) and math.isfinite(gradient_norm):
            self._recent.append((loss, gradient_norm))
        return None

    @classmethod
    def false_alarm_rate(cls, history=None):
        """The most that a change of no effect is undone for, as a probability."""
        history = cls.HISTORY_LEAST if history is None else history
        places = cls.WATCHED - cls.CONSECUTIVE + 1
        return min(1.0, 3 * places / math.comb(history + cls.CONSECUTIVE, cls.CONSECUTIVE))

    def _why(self, loss, norm):
        for name, value in (("loss", loss), ("gradient norm", norm)):
            if not math.isfinite(value):
                return f"the {name} became {value} under the new plan"
        if len(self._before) < self.HISTORY_LEAST:
            return None
        losses, norms = zip(*self._before)
        # Half the range above its end: a loss that hardly moves may be passed by rounding alone.
        highest = max(losses) + (max(losses) - min(losses)) / 2
        questions = {
            "loss": (loss > highest, loss, f"above {highest:.6g}"),
            "gradient norm": (norm > max(norms) * self.NORM_FACTOR, norm, f"above {max(norms) * self.NORM_FACTOR:.6g}"),
            "small gradient norm": (norm < min(norms) / self.NORM_FACTOR, norm,
                                    f"below {min(norms) / self.NORM_FACTOR:.6g}"),
        }
        for name, (outside, value, bound) in questions.items():
            self._outside[name] = self._outside.get(name, 0) + 1 if outside else 0
            if self._outside[name] >= self.CONSECUTIVE:
                return (f"the {name.removeprefix('small ')} of {self.CONSECUTIVE} steps in a row under the new plan was "
                        f"{bound}, last {value:.6g}, unlike all {len(self._before)} steps before it")
        return None
