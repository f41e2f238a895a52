"""What injected work costs: times of one program without it and with it, in turn.

What was asked for is only a wish: ranks that share cores, or that would wait anyway, make of it
more or less. None of these times is a sample of the case.
"""

from __future__ import annotations

import statistics

from busbw.worker.sampling import LONG_BUDGETS, Sampler, launch_time_s

# Fewer would say little of a few percent.
LEAST_TURNS = 5

_Pair = tuple[float, float]


def measured_ratio(sampler: Sampler) -> float | None:
    """The median over the turns; None where the clock cannot tell a chain from an empty one."""
    with sampler.phases.of("injecting"):
        turns = _turns(sampler)
    short_s = launch_time_s([short for turn in turns for short, _ in turn])
    gained_s = [[long - min(short, short_s) for short, long in turn] for turn in turns]
    if min(map(min, gained_s)) <= 0:
        return None
    return statistics.median(with_s / without_s for without_s, with_s in gained_s)


def _turns(sampler: Sampler) -> list[tuple[_Pair, _Pair]]:
    """As many as samples, if there is as much time for them; one of what takes very long."""
    plan, begun_s = sampler.plan, sampler.now_s()
    found: list[tuple[_Pair, _Pair]] = []
    while True:
        pairs = {
            on: sampler.beside(injecting=on) for on in (len(found) % 2 > 0, len(found) % 2 < 1)
        }
        found.append((pairs[False], pairs[True]))
        spent_s = sampler.slowest(sampler.now_s() - begun_s)
        least = 1 if spent_s > LONG_BUDGETS * plan.budget_s else LEAST_TURNS
        if len(found) >= plan.samples or (len(found) >= least and spent_s > plan.budget_s):
            return found
