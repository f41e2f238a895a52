"""A measured curve t(S): what a collective took by payload, read at payloads between and beyond.

Fits nothing: the line that stands for the curve outside of it is handed in.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """t(S) = `latency_s` + S / `bytes_per_s`."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, payload_bytes: float) -> float:
        """The line's time for a payload."""
        return self.latency_s + payload_bytes / self.bytes_per_s


class OutsideError(ValueError):
    """A payload outside of the measured ones, and no line; the message says which there are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A time, and how it was had: measured, interpolated, or by latency and bandwidth."""

    seconds: float
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCurve:
    """Payload bytes and seconds, ascending and without repeats; `line` is None where none fits."""

    points: tuple[tuple[int, float], ...]
    line: Line | None = None

    def read(self, payload_bytes: float) -> Reading:
        """The time for a payload.

        Between two points log t is linear in log S: between a latency, where t does not grow, and
        a bandwidth, where it grows as S, every slope occurs, and relative errors are alike at every
        size. Outside, the time of the nearest point grows or shrinks as the line does: a line
        through all points may pass that one far off, and more bytes never take less time. Raises
        OutsideError where there is none.
        """
        sizes = [size for size, _ in self.points]
        place = bisect_left(sizes, payload_bytes)
        if place < len(sizes) and sizes[place] == payload_bytes:
            return Reading(seconds=self.points[place][1], how="measured")
        if 0 < place < len(sizes):
            return Reading(seconds=self._between(place, payload_bytes), how="interpolated")
        if self.line is None:
            raise OutsideError(
                f"{payload_bytes:.0f} bytes are outside of what was measured, "
                f"{sizes[0]} to {sizes[-1]} bytes, and no line fits those"
            )
        near, near_s = self.points[0 if place == 0 else -1]
        growth = self.line.seconds(payload_bytes) / self.line.seconds(near)
        return Reading(seconds=near_s * growth, how="by latency and bandwidth")

    def _between(self, place: int, payload_bytes: float) -> float:
        (low, low_s), (high, high_s) = self.points[place - 1 : place + 1]
        share = math.log(payload_bytes / low) / math.log(high / low)
        return low_s * math.exp(share * math.log(high_s / low_s))
