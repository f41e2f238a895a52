"""What is said of a measurement and decides nothing: clocks, stragglers, what was injected.

All processes of a group end a collective together, so that its time by their own clocks is nearly
the same. A process that is slow by itself is slow where it waits for no other: between two calls,
when it lays out and compares its own values. And in a recording of the devices the rank that comes
last is the one that spends least time in the collective, as all others wait there for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.model.case import Spec
from busbw.model.launch import Measurement, Run
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import Straggler, Verdict
from busbw.model.words import Clock, payload_text, plural, seconds_text
from busbw.stats.launches import launch_time_s

from .policy import STRAGGLES, Policy

# In a single launch one process is behind by chance.
LEAST_LAUNCHES = 2
# With more cases a sentence has their range.
_NAMED = 8


def clock_disagreement(runs: Sequence[Run], policy: Policy) -> tuple[str, ...]:
    """A sentence if the host's and the device's clock differ beyond the policy's limit.

    Medians over the launches that read both; nothing where none did.
    """
    both = [
        (run.clocks_s[Clock.HOST], run.clocks_s[Clock.DEVICE])
        for run in runs
        if {Clock.HOST.value, Clock.DEVICE.value} <= set(run.clocks_s)
    ]
    if not both:
        return ()
    ratio = statistics.median(host_s / device_s for host_s, device_s in both)
    if 1 / policy.clock_ratio <= ratio <= policy.clock_ratio:
        return ()
    host_s, device_s = (statistics.median(times_s) for times_s in zip(*both))
    return (
        f"clocks disagree: host {seconds_text(host_s)}, device {seconds_text(device_s)}, "
        f"{ratio:.2f} x (limit {policy.clock_ratio:.2f} x either way)",
    )


def straggler_of(
    runs: Sequence[Run], key: EnvironmentKey, hosts: Sequence[str] = ()
) -> Straggler | None:
    """The one that is behind in every launch, of two at least; None where there is none.

    `hosts` are the names of the processes' hosts. Ranks of virtual devices share processors and
    say nothing of themselves.
    """
    if key.processes == 1 or len(runs) < LEAST_LAUNCHES:
        return None
    found = _same([_outlier(run.process_own_s) for run in runs])
    each, is_rank = 1, found is None and key.cores is None
    if is_rank:
        found = _same([_outlier([1 / one for one in run.rank_times_s]) for run in runs])
        each = key.ranks // key.processes
    if found is None:
        return None
    index, ratio = found
    process, rank = index // each, index if is_rank else None
    host = hosts[process] if process < len(hosts) else ""
    return Straggler(process=process, host=host, ratio=ratio, rank=rank)


def _outlier(values: Sequence[float]) -> tuple[int, float] | None:
    """The index of the largest, and how many times the median of the others that is."""
    if len(values) < 2:
        return None
    index = max(range(len(values)), key=lambda one: values[one])
    others = statistics.median(value for one, value in enumerate(values) if one != index)
    if others <= 0 or values[index] < STRAGGLES * others:
        return None
    return index, values[index] / others


def _same(found: Sequence[tuple[int, float] | None]) -> tuple[int, float] | None:
    """What all launches found, if that is the same; the median of the ratios."""
    there = [one for one in found if one is not None]
    if len(there) != len(found) or len({index for index, _ in there}) != 1:
        return None
    return there[0][0], statistics.median(ratio for _, ratio in there)


def injected_ratio(runs: Sequence[Run]) -> float | None:
    """The time with the injected work over that without it, the median over launches, or None."""
    ratios = _ratios(runs)
    return statistics.median(ratios) if ratios else None


def with_injections(
    verdicts: Mapping[Spec, Verdict], measurements: Mapping[Spec, Measurement]
) -> dict[Spec, Verdict]:
    """The verdicts, with a note on each case that something was injected into."""
    found = dict(verdicts)
    for spec, measurement in measurements.items():
        note = _case_note(measurement.runs)
        if note and spec in found:
            found[spec] = replace(found[spec], notes=(*found[spec].notes, note))
    return found


def injection_notes(measurements: Mapping[Spec, Measurement]) -> tuple[str, ...]:
    """What was injected in the session and what it was measured to be: a sentence, or none."""
    ratios = {spec: injected_ratio(one.runs) for spec, one in measurements.items()}
    known = {spec: ratio for spec, ratio in ratios.items() if ratio is not None}
    if not known:
        return ()
    asked = next(run.injected for spec in known for run in measurements[spec].runs if run.injected)
    return (f"injected {asked}: measured {_over_cases(known)}",)


def _case_note(runs: Sequence[Run]) -> str:
    """Such as ``injected delay:5%: measured +5.2 % (31 us), +4.8 to +5.9 % over 3 launches``."""
    ratio, ratios = injected_ratio(runs), _ratios(runs)
    if ratio is None:
        return ""
    asked = next(run.injected for run in runs if run.injected)
    text = f"injected {asked}: measured {_gain(ratio)}"
    if ratio > 1:
        time_s = statistics.median(launch_time_s(run) for run in runs)
        text += f" ({seconds_text(time_s * (1 - 1 / ratio), 3)})"
    if len(ratios) > 1:
        text += f", {_span(ratios)} over {plural(len(ratios), 'launch')}"
    return text


def _over_cases(known: Mapping[Spec, float]) -> str:
    if len(known) > _NAMED:
        return f"{_span(list(known.values()))} in {plural(len(known), 'case')}"
    sizes = {spec: f"at {payload_text(spec.payload_bytes)}" for spec in known}
    if len(set(sizes.values())) < len(known):
        sizes = {spec: f"in {spec.id}" for spec in known}
    return ", ".join(f"{_gain(ratio)} {sizes[spec]}" for spec, ratio in known.items())


def _ratios(runs: Sequence[Run]) -> list[float]:
    return [run.injected_ratio for run in runs if run.injected_ratio is not None]


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _span(ratios: Sequence[float]) -> str:
    return f"{100 * (min(ratios) - 1):+.1f} to {_gain(max(ratios))}"
