"""The history of a case: every launch, its levels, what changed, and nights without a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.model.words import Outcome, payload_text, plural, seconds_text

from ..chart import Axis, Chart, Direction, Edge, Mark, Position, Rule, Scale, Series, Style
from ..nights import CaseNights, MachineNights, StackChange

# More rules than these would hide the rest: then only those where a level changed.
_MOST_RULES = 15
# Farther from each other, times are shown by their ratios.
_WIDE = 4.0
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_LAUNCHES, _LEVEL = "launches", "level"


def case_history(machine: MachineNights, case: CaseNights) -> Chart:
    """The chart of a case of that machine. Raises ValueError where it has no night at all."""
    nights = [at for at, one in enumerate(case.nights) if one is not None]
    if not nights:
        raise ValueError(f"{case.case.name}: there is no night")
    unit_s, unit = _unit(case)
    launches = [
        (machine.nights[at].began, time_s / unit_s)
        for at, one in enumerate(case.nights)
        if one is not None
        for time_s in one.times_s
    ]
    times = [y for _, y in launches]
    is_wide = bool(times) and max(times) > _WIDE * min(times)
    marks = (*_changes(case, unit_s), *_gaps(machine, case))
    rules, left_out = _rules(machine, case)
    title = f"{case.case.group_name}, {payload_text(case.case.payload_bytes)}: time by night"
    subtitle = _subtitle(machine, case, nights, left_out)
    return Chart(
        title=title,
        subtitle=subtitle,
        x=Axis(name="night", scale=Scale.TIME),
        y=Axis(name="time", unit=unit, scale=Scale.LOG10 if is_wide else Scale.LINEAR),
        series=(
            Series(name=_LAUNCHES, points=tuple(launches), style=Style.DOTS),
            Series(name=_LEVEL, points=tuple(_level(machine, case, unit_s)), style=Style.LINE),
        ),
        rules=rules,
        marks=marks,
        description=" ".join([f"{title}. {subtitle}.", *_sentences(case)]),
    )


def _unit(case: CaseNights) -> tuple[float, str]:
    newest_s = case.newest_s or 0.0
    return next((one for one in _UNITS if newest_s >= one[0]), _UNITS[-1])


def _level(
    machine: MachineNights, case: CaseNights, unit_s: float
) -> Iterator[tuple[Position, float]]:
    for one in case.levels:
        for at in dict.fromkeys((one.first, one.last)):
            yield machine.nights[at].began, one.level_s / unit_s


def _changes(case: CaseNights, unit_s: float) -> Iterator[Mark]:
    for change, level in zip(case.changes, case.levels[1:], strict=True):
        yield Mark(label=change.text, x=change.began, y=level.level_s / unit_s, series=_LEVEL)


def _gaps(machine: MachineNights, case: CaseNights) -> Iterator[Mark]:
    for at, one in enumerate(case.nights):
        if one is not None and one.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY):
            yield Mark(label=one.outcome.value, x=machine.nights[at].began, edge=Edge.BOTTOM)


def _rules(machine: MachineNights, case: CaseNights) -> tuple[tuple[Rule, ...], int]:
    found: Sequence[StackChange] = machine.series_of(case).stack_changes
    first = next(at for at, one in enumerate(case.nights) if one is not None)
    found = [one for one in found if one.night > first]
    changed = {one.night for one in case.changes}
    kept = [one for one in found if one.night in changed or len(found) <= _MOST_RULES]
    # Where there is no room for all labels, those of changed levels are written.
    kept.sort(key=lambda one: one.night not in changed)
    rules = tuple(
        Rule(
            label=", ".join(one.changes),
            at=machine.nights[one.night].began,
            direction=Direction.VERTICAL,
        )
        for one in kept
    )
    return rules, len(found) - len(kept)


def _subtitle(
    machine: MachineNights, case: CaseNights, nights: Sequence[int], left_out: int
) -> str:
    first, last = (machine.nights[at].began for at in (nights[0], nights[-1]))
    said = [machine.folder]
    said += [case.series] if machine.series_of(case).in_turn else []
    said.append(f"{first:%Y-%m-%d} to {last:%Y-%m-%d}, {plural(len(nights), 'night')}")
    if case.levels:
        said.append(f"newest level {seconds_text(case.levels[-1].level_s)}")
    if left_out:
        said.append(f"versions changed in {plural(left_out, 'other night')}")
    return " · ".join(said)


def _sentences(case: CaseNights) -> Iterator[str]:
    for change in case.changes:
        yield f"{change.sentence}."
    for outcome in (Outcome.OUT_OF_MEMORY, Outcome.FAILED):
        count = sum(one is not None and one.outcome is outcome for one in case.nights)
        if count:
            yield f"{outcome.value} in {plural(count, 'night')}."
    if not case.changes:
        yield "The level did not change."
