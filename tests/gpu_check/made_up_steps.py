"""Training steps whose recording costs what was planted, in made-up time: as a controller records them that samples, or that
records all while an agent is there."""
import math
import random

SECOND = 10**9


class MadeUpSteps:
    """`planted`: what recording takes of the time that collecting is on. `noise` of a step, beside a slow drift of 3 %."""

    def __init__(self, planted, *, sampled, noise=0.01, seconds=170, step_s=0.055, seed=1):
        self._random, self._noise, self._step_ns = random.Random(seed), noise, step_s * SECOND
        self.steps, self.windows = [], []
        now, end = SECOND, (1 + seconds) * SECOND
        while now < end:
            now = self._stay(now, planted, sampled)
            since, until = now, now + 5 * SECOND
            while now < until:
                now = self._step(now, 0)
            self._window(since, now, "no_agent")

    def _window(self, begin, end, why):
        """In pieces, as the collector tells long ones."""
        middle = (begin + end) // 2
        self.windows += [(begin, middle, why), (middle, end, why)]

    def _stay(self, now, planted, sampled):
        """Ten seconds of an agent: all steps recorded, or three of them that cost as much together."""
        count = round(10 * SECOND / self._step_ns)
        chosen = self._random.randrange(10, count - 20)
        recorded = range(chosen, chosen + 3) if sampled else range(count)
        since = now
        for number in range(count):
            if sampled and number == recorded.start:
                self._window(since, now, "sampling")
            now = self._step(now, planted * count / len(recorded) if number in recorded else 0)
            if sampled and number == recorded.stop - 1:
                since = now
        if sampled:
            self._window(since, now, "sampling")
        return now

    def _step(self, now, beyond):
        drift = 1 + 0.03 * math.sin(now / SECOND / 40)
        length = self._step_ns * (drift * math.exp(self._random.gauss(0, self._noise)) + beyond)
        self.steps.append((now, now + round(length)))
        return self.steps[-1][1]
