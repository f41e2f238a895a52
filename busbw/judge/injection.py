"""What an injection was measured to be, in words: on each of its cases, and for the session.

It decides nothing: what was asked for and what it became differ, and the verdict is of the latter.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw import stats
from busbw.model import Measurement, Run, Spec, Verdict, payload_text, plural, seconds_text

# With more cases a sentence has their range.
_NAMED = 8


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
        time_s = statistics.median(stats.launch_time_s(run) for run in runs)
        text += f" ({seconds_text(time_s * (1 - 1 / ratio), 3)})"
    if len(ratios) > 1:
        text += f", {_span(ratios)} over {plural(len(ratios), 'launch')}"
    return text


def _over_cases(known: Mapping[Spec, float]) -> str:
    if len(known) > _NAMED:
        return f"{_span(list(known.values()))} in {plural(len(known), 'case')}"
    sizes = {spec.payload_bytes for spec in known}
    return ", ".join(
        f"{_gain(ratio)} "
        + (
            f"at {payload_text(spec.payload_bytes)}"
            if len(sizes) == len(known)
            else f"in {spec.id}"
        )
        for spec, ratio in known.items()
    )


def _ratios(runs: Sequence[Run]) -> list[float]:
    return [run.injected_ratio for run in runs if run.injected_ratio is not None]


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _span(ratios: Sequence[float]) -> str:
    return f"{100 * (min(ratios) - 1):+.1f} to {_gain(max(ratios))}"
