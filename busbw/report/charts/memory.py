"""What one rank's part of a compiled program takes at most, over payload."""

from __future__ import annotations

from busbw.model.verdict import CompiledVerdict
from busbw.model.words import Outcome
from busbw.report.reading import CompiledSession

from ..chart import Axis, Chart, Mark, Series
from .curves import PAYLOAD, sentence

_PEAK = Axis(name="memory at most over payload")
_MOST_CURVES = 12


def memory(session: CompiledSession) -> Chart | None:
    """None where there is nothing to draw; of too many, those whose cases changed come first."""
    kinds: dict[str, list[CompiledVerdict]] = {}
    for one in session.verdicts:
        if one.case is not None:
            kinds.setdefault(_name(one, session), []).append(one)
    ordered = sorted(kinds, key=lambda name: all(_is_usual(one) for one in kinds[name]))
    shown = {name: kinds[name] for name in ordered[:_MOST_CURVES]}
    series = tuple(
        Series(name=name, group=name, points=points)
        for name, those in shown.items()
        if (points := _points(those))
    )
    if not series:
        return None
    drawn = {one.name for one in series}
    marks = tuple(
        Mark(label=one.outcome.value, x=one.case.payload_bytes, series=name)
        for name, those in shown.items()
        for one in those
        if name in drawn and one.case is not None and one.outcome is Outcome.OUT_OF_MEMORY
    )
    title = "Memory of compiled programs"
    left_out = len(kinds) - len(shown)
    more = f" {left_out} others are in the tables only." if left_out else ""
    return Chart(
        title=title,
        subtitle=f"The most that one rank holds, in payloads, by the compiler.{more}",
        x=PAYLOAD,
        y=_PEAK,
        series=series,
        marks=marks,
        description=" ".join([f"{title}.", *(sentence(one, marks, "payloads") for one in series)]),
    )


def _is_usual(verdict: CompiledVerdict) -> bool:
    return verdict.outcome in (Outcome.PASS, Outcome.NO_BASELINE)


def _name(verdict: CompiledVerdict, session: CompiledSession) -> str:
    assert verdict.case is not None
    groups = {one.case.group_name for one in session.verdicts if one.case is not None}
    mine = [one for one in session.verdicts if one.spec.topology == verdict.spec.topology]
    releases = {one.release for one in mine if one.release}
    words = [verdict.spec.topology]
    words += [verdict.case.group_name] if len(groups) > 1 else []
    words += [verdict.release] if len(releases) > 1 else []
    return ", ".join(words)


def _points(verdicts: list[CompiledVerdict]) -> tuple[tuple[int, float], ...]:
    return tuple(
        (one.case.payload_bytes, one.now.peak_bytes / one.case.payload_bytes)
        for one in sorted(verdicts, key=lambda one: one.spec.spec.payload_bytes)
        if one.case is not None and one.now is not None
    )
