"""Measures how much an injected delay slows a collective down.

Chains with the delay are interleaved with chains without the delay.
"""

from __future__ import annotations

import statistics

from busbw.model.launch import Injection
from busbw.model.words import seconds_text
from busbw.worker.backends.base import slowest_process_s, unavailable
from busbw.worker.sampling import Sampler, launch_time_s

# Fewer pairs of chains cannot show a difference of a few percent.
_MIN_PAIRS = 5

# The ratio of the measured delay to the requested delay must be at least this large. On virtual
# devices ranks share cores, so that the real delay of a rank is inexact.
_MIN_DELAY_RATIO = 0.25

_NOT_MEASURABLE = (
    "the delay cannot be measured: without it a chain takes no longer than an empty call; "
    "repeat it on an idle machine, or with a shorter delay"
)

# The seconds of a short and of a long chain.
_ChainTimes = tuple[float, float]


def delayed_ratio(sampler: Sampler, injection: Injection) -> float:
    """Return the time of a collective with the delay, divided by its time without the delay.

    Raises MeasuringError UNAVAILABLE if less than a quarter of the requested delay is measured, or
    if the clock cannot distinguish a chain without the delay from the shortest chain.
    """
    with sampler.phases.enter("injecting"):
        pairs = _time_pairs(sampler)
    short_s = launch_time_s([short for pair in pairs for short, _ in pair])
    slopes_s = [
        [sampler.slope_s(long, min(short, short_s), sampler.iterations) for short, long in pair]
        for pair in pairs
    ]
    without_s, with_s = map(statistics.median, zip(*slopes_s))
    if without_s <= 0:
        raise unavailable(_NOT_MEASURABLE)
    requested_s = injection.delay_s(without_s)
    if with_s - without_s < _MIN_DELAY_RATIO * requested_s:
        raise unavailable(
            f"the delay was not applied: with {injection.text} a collective took "
            f"{seconds_text(with_s)}, without it {seconds_text(without_s)}, expected "
            f"{seconds_text(requested_s)} more; repeat it on an idle machine, or with a longer "
            "delay"
        )
    ratio = statistics.median(with_s / without_s for without_s, with_s in slopes_s)
    if ratio <= 0:
        raise unavailable(_NOT_MEASURABLE)
    return ratio


def _time_pairs(sampler: Sampler) -> list[tuple[_ChainTimes, _ChainTimes]]:
    """Return pairs of chain times: first without the delay, second with the delay.

    Which of the two is measured first alternates from pair to pair. There are as many pairs as the
    plan has samples, fewer if the plan's budget ends, and a single pair for a case that takes very
    long.
    """
    begun_s, spent_s = sampler.now_s(), 0.0
    pairs: list[tuple[_ChainTimes, _ChainTimes]] = []
    while not sampler.may_stop(len(pairs), spent_s, _MIN_PAIRS):
        is_delayed_first = len(pairs) % 2 > 0
        times: dict[bool, _ChainTimes] = {}
        for is_delayed in (is_delayed_first, not is_delayed_first):
            sampler.program.is_injecting = is_delayed
            times[is_delayed] = sampler.time_short_and_long_chain(sampler.iterations)
        pairs.append((times[False], times[True]))
        spent_s = slowest_process_s(sampler.all_gather, sampler.now_s() - begun_s)
    sampler.program.is_injecting = True
    return pairs
