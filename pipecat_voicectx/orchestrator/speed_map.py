"""Words per minute in a voice's own unit of speed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipecat_voicectx.errors import UsageError

__all__ = ["SpeedMap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMap:
    """The straight line between two measured points, clipped to the range the service accepts (LOV, section 3.3):

    s(r) = clip(s_min + (r - r_min) / (r_max - r_min) * (s_max - s_min), s_min, s_max)

    `slowest_value` may be the larger number: some services count the other way round.
    """

    slowest_wpm: float
    """Rate that the voice delivers at `slowest_value`."""
    fastest_wpm: float
    slowest_value: float
    fastest_value: float

    def __post_init__(self) -> None:
        numbers = (self.slowest_wpm, self.fastest_wpm, self.slowest_value, self.fastest_value)
        if not all(math.isfinite(number) and number > 0.0 for number in numbers):
            raise UsageError("SpeedMap: rates and values must be positive numbers")
        if not self.slowest_wpm < self.fastest_wpm or self.slowest_value == self.fastest_value:
            raise UsageError(
                "SpeedMap: slowest_wpm must be below fastest_wpm, and the two values must differ"
            )

    def value_for(self, words_per_minute: float) -> float:
        """The service's value that comes closest to `words_per_minute`."""
        share = (words_per_minute - self.slowest_wpm) / (self.fastest_wpm - self.slowest_wpm)
        share = min(1.0, max(0.0, share))
        return self.slowest_value + share * (self.fastest_value - self.slowest_value)

    def wpm_for(self, value: float) -> float:
        """The rate that the service delivers at `value`."""
        share = (value - self.slowest_value) / (self.fastest_value - self.slowest_value)
        return self.slowest_wpm + min(1.0, max(0.0, share)) * (self.fastest_wpm - self.slowest_wpm)
