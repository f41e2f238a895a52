"""Shifts of sizes as a regression of a known shape would make them, with noise from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from busbw.judge.curve import Curve, SizeShift
from busbw.model.words import KIB

# Half of the time is latency at 166K: between the fourth and the fifth size.
CURVE = Curve(latency_s=50e-6, bandwidth_bytes_per_s=3.4e9, rms_log_error=0.0)
SIZES = tuple(KIB * 4**step for step in range(9))
ERROR = 0.03

Ratio = Callable[[int], float]


def latency(change: float) -> Ratio:
    return lambda size: 1 + change * CURVE.latency_share(size)


def bandwidth(change: float) -> Ratio:
    return lambda size: 1 + change * (1 - CURVE.latency_share(size))


def at(change: float, *slow: int) -> Ratio:
    return lambda size: 1 + change * (size in slow)


def shifts(
    ratio: Ratio,
    sizes: Sequence[int] = SIZES,
    *,
    seed: int | None = None,
    error: float = ERROR,
    judged: bool = True,
) -> list[SizeShift]:
    """The sizes' shifts by `ratio`, with noise if there is a seed; two errors are significant."""
    source = random.Random(seed)
    ratios = [
        math.log(ratio(s)) + (source.gauss(0, error) if seed is not None else 0.0) for s in sizes
    ]
    return [
        SizeShift(
            payload_bytes=size,
            log_ratio=one,
            standard_error=error,
            significant=judged and one > 2 * error,
        )
        for size, one in zip(sizes, ratios)
    ]
