"""By how much an injected delay slows a collective down, measured in interleaved chains."""

from __future__ import annotations

import statistics

from busbw.model.launch import Injection
from busbw.model.words import seconds_text
from busbw.worker.backends.base import unavailable
from busbw.worker.sampling import Sampler, launch_time_s

# Fewer pairs say little about a few percent.
_MIN_PAIRS = 5

# The share of a requested delay that must be measured. Ranks share cores, so a delay is inexact.
_MIN_DELAY_SHARE = 0.25

_NOT_MEASURABLE = (
    "the delay cannot be measured: without it a chain takes no longer than an empty call; "
    "repeat it on an idle machine, or with a shorter delay"
)

# The times of a short and a long chain.
_Times = tuple[float, float]


def delayed_ratio(sampler: Sampler, injection: Injection) -> float:
    """Return the time of a collective with the delay over its time without the delay.

    Raises MeasuringError UNAVAILABLE if less than a quarter of the requested delay is measured, or
    if the clock cannot distinguish the chains.
    """
    with sampler.phases.enter("injecting"):
        pairs = _time_pairs(sampler)
    short_s = launch_time_s([short for pair in pairs for short, _ in pair])
    slopes_s = [
        [sampler.slope(long, min(short, short_s), sampler.iterations) for short, long in pair]
        for pair in pairs
    ]
    without_s, with_s = map(statistics.median, zip(*slopes_s))
    if without_s <= 0:
        raise unavailable(_NOT_MEASURABLE)
    requested_s = injection.delay_s(without_s)
    if with_s - without_s < _MIN_DELAY_SHARE * requested_s:
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


def _time_pairs(sampler: Sampler) -> list[tuple[_Times, _Times]]:
    """Return the times of chains without and with the delay, in pairs that change their order.

    There are as many pairs as samples if there is time for them, and a single pair of a case that
    takes very long.
    """
    begun_s, spent_s = sampler.now_s(), 0.0
    pairs: list[tuple[_Times, _Times]] = []
    while not sampler.is_enough(len(pairs), spent_s, _MIN_PAIRS):
        is_delayed_first = len(pairs) % 2 > 0
        times = {
            injecting: sampler.sample_with_injection(injecting=injecting)
            for injecting in (is_delayed_first, not is_delayed_first)
        }
        pairs.append((times[False], times[True]))
        spent_s = sampler.slowest_s(sampler.now_s() - begun_s)
    return pairs
