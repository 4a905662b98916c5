"""The one exchange that all ranks make after each step: results up, decisions agreed.

One gather of a few integers carries the step's loss and sample hash together with what each rank offers: the epoch it
could switch to, whether it heard a stop, whether it ran over its memory, what it was asked to measure again. So all
ranks decide alike, and a step pays for one small collective. Main thread only.
"""
import dataclasses
import math
import struct

_MASK = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class StepSummary:
    """A step over all ranks."""

    loss: float
    gradient_norm: float
    samples: str
    peaks: list  # Bytes, of each rank.


class Control:
    def __init__(self, groups):
        self._groups = groups
        self._presented = None  # Returns what this rank brings to the next round.
        self._limit_bytes = 0
        self.summary = None
        self.stop = False
        self.adopted = False  # Every rank has heard that the plan of this step is the incumbent.
        self.over_limit = None  # (rank, peak bytes) of the first rank over its memory limit.
        self.measures = 0  # The number of what every rank was asked to measure again; 0: they were not.

    def present(self, result, *, stop_heard, terminated, peak_bytes, limit_bytes, adoption_heard=lambda: True,
                measuring_heard=lambda: 0):
        """What this rank brings to the next round; the limit is every rank's alike.

        A stop, an adoption and what is measured again need all ranks to have heard it, a signal only one. What ends in
        `_heard()` is asked when the round begins: the agent may have spoken since.
        """
        self._limit_bytes = limit_bytes
        self._presented = lambda: [
            int(stop_heard()), int(terminated), peak_bytes, _float_bits(result.loss), _float_bits(result.squared_gradient_norm),
            _signed(result.first_stage_hash), _signed(result.last_stage_hash), int(adoption_heard()), measuring_heard()]

    def agree(self, value):
        """The minimum of `value` over all ranks. The first call after present() carries the step with it."""
        presented, self._presented = self._presented, None
        if presented is None:
            return self._groups.minimum(value)
        rows = self._groups.gather_integers([value, *presented()])
        self.stop = all(row[1] for row in rows) or any(row[2] for row in rows)
        self.adopted = all(row[8] for row in rows)
        offers = {row[9] for row in rows}
        self.measures = offers.pop() if len(offers) == 1 else 0
        peaks = [row[3] for row in rows]
        over = [rank for rank, peak in enumerate(peaks) if self._limit_bytes and peak > self._limit_bytes]
        self.over_limit = (over[0], peaks[over[0]]) if over else None
        embedded = sum(row[6] for row in rows) & _MASK
        judged = sum(row[7] for row in rows) & _MASK
        assert embedded == judged, "the first and the last stage saw different samples"
        self.summary = StepSummary(
            math.fsum(_bits_float(row[4]) for row in rows),
            math.sqrt(math.fsum(_bits_float(row[5]) for row in rows)), f"{embedded:016x}", peaks)
        return min(row[0] for row in rows)


def _float_bits(value):
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _bits_float(bits):
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def _signed(value):
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value
