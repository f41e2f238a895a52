"""What a page says of the nights of machines: what changed when, the heat map, each changed case.

Cases that changed have a chart each, those that changed most first, and beyond a dozen folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from busbw.history.failing import failing_text, names_text
from busbw.history.lines import wrong_text
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural, ratio_text, seconds_text
from busbw.report.table import Column, Row, Table, TextLine

from .content import Figure, Gallery, Listing, Part, Section, Text, filled
from .history_charts import case_history, ratios
from .nights import CaseNights, MachineNights

# More are folded.
_OPEN_CHARTS = 12
_MOST_CHANGES = 24


def machine_sections(machines: Sequence[MachineNights]) -> tuple[Section, ...]:
    return tuple(
        Section(
            heading="History" if len(machines) == 1 else f"History of {one.folder}",
            parts=tuple(_overview(one)),
            sections=filled(
                Section(heading="Cases that changed", parts=tuple(_charts(one))),
                Section(heading="All cases", parts=_trends(one)),
            ),
        )
        for one in machines
    )


def _overview(machine: MachineNights) -> Iterator[Part]:
    nights = machine.nights
    outcomes = Counter(one.session_outcome.value for one in nights)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    yield Text(
        text=f"{machine.folder}: {plural(len(nights), 'night')} from {nights[0].began:%Y-%m-%d} "
        f"to {nights[-1].began:%Y-%m-%d}: {counts}."
    )
    for series, changes in machine.shared.items():
        sentences = tuple(one.sentence for one in reversed(changes))
        yield Text(text=f"All cases of {series} together:", points=sentences)
    wrong = [(one.case.name, wrong_text(one.nights.values())) for one in machine.cases]
    points = tuple(f"{name}: {text}" for name, text in wrong if text)
    if points:
        yield Text(text="Wrong values:", points=points)
    lost = tuple(_lost(machine))
    if lost:
        yield Text(text="Cases without a time since:", points=lost)
    levels = list(_changes(machine))
    shown, left_out = levels[:_MOST_CHANGES], len(levels) - _MOST_CHANGES
    shown += [f"and {plural(left_out, 'night')} earlier"] if left_out > 0 else []
    title = "Levels that changed, newest first:" if levels else "No level of a case changed."
    yield Text(text=title, points=tuple(shown))
    yield Figure(picture=ratios(machine))


def _lost(machine: MachineNights) -> Iterator[str]:
    found: dict[tuple[int, str], list[str]] = {}
    for case in machine.cases:
        since = case.without_time_since
        if since is not None:
            outcome = case.nights[since].outcome.value
            found.setdefault((since, outcome), []).append(case.case.name)
    for (since, outcome), names in sorted(found.items(), reverse=True):
        yield f"since {machine.nights[since].began:%Y-%m-%d}: {names_text(names)}: {outcome}"


def _changes(machine: MachineNights) -> Iterator[str]:
    """A line for each night and cause, newest first."""
    cases: dict[tuple[int, str], list[tuple[float, str]]] = {}
    for case in machine.cases:
        for one in case.changes:
            cases.setdefault((one.night, one.cause), []).append((one.ratio, case.case.name))
    for (night, cause), found in sorted(cases.items(), key=lambda item: -item[0][0]):
        yield f"since {machine.nights[night].began:%Y-%m-%d}: {_moved(found)}; {cause}"


def _moved(found: Sequence[tuple[float, str]]) -> str:
    moved = sorted(ratio for ratio, _ in found)
    shown = names_text([name for _, name in found])
    if len(moved) == 1:
        return f"{shown} takes {ratio_text(moved[0])} x the time it took before"
    span = f"{ratio_text(moved[0])} to {ratio_text(moved[-1])}"
    return f"{shown} take {span} x the time they took before"


def since_when(verdicts: Sequence[Verdict], machines: Sequence[MachineNights]) -> tuple[str, ...]:
    """For the cases that failed: since which night without a break, and what changed there."""
    failed = {one.case: one.outcome for one in verdicts if one.failed and one.case is not None}
    names: dict[str, list[str]] = {}
    for machine in machines:
        for case in machine.cases:
            text = _since(machine, case, failed.get(case.case))
            if text:
                names.setdefault(text, []).append(case.case.name)
    return tuple(f"{names_text(those)}: {text}" for text, those in names.items())


def _since(machine: MachineNights, case: CaseNights, outcome: Outcome | None) -> str:
    changes = [(machine.nights[at].began, texts) for at, texts in case.stack_changes.items()]
    return failing_text(outcome, list(case.nights.values()), changes)


def _charts(machine: MachineNights) -> Iterator[Part]:
    ordered = _ordered(machine.cases)
    figures = tuple(Figure(picture=case_history(machine, one)) for one in ordered)
    first, others = figures[:_OPEN_CHARTS], figures[_OPEN_CHARTS:]
    if first:
        yield Gallery(figures=first)
    if others:
        yield Gallery(figures=others, title=f"{plural(len(others), 'case')} more that changed")


def _ordered(cases: Sequence[CaseNights]) -> list[CaseNights]:
    """Those without a time first; of each night with changes what changed most, then the next."""
    lost = [one for one in cases if one.without_time_since is not None]
    nights: dict[int, list[tuple[float, CaseNights]]] = {}
    for case in cases:
        for one in case.changes:
            nights.setdefault(one.night, []).append((abs(one.log_ratio), case))
    ranked = [
        (place, -night, case)
        for night, found in nights.items()
        for place, (_, case) in enumerate(sorted(found, key=lambda item: -item[0]))
    ]
    ordered = sorted(ranked, key=lambda item: item[:2])
    return list({id(case): case for case in [*lost, *(one for *_, one in ordered)]}.values())


_COLUMNS = (
    Column("case", "case", left=True),
    Column("nights", "nights"),
    Column("level_s", "level", text=seconds_text),
    Column("spread", "spread", unit="%", text=lambda share: f"{100 * share:.2g}"),
    Column("newest_s", "newest", text=seconds_text),
    Column("ratio", "vs first", text=ratio_text),
    Column("changes", "changes"),
)


def _trends(machine: MachineNights) -> tuple[Part, ...]:
    cases = machine.cases
    if not cases:
        return ()
    several = len({one.series for one in cases}) > 1
    table = Table(
        title=TextLine("All cases, with their nights from the oldest to the newest"),
        columns=_COLUMNS,
        rows=tuple(_row(one, several=several) for one in cases),
        notes=("vs first: the newest time over the median of the case's first nights",),
        missing="-",
    )
    return (Listing(table=table, cases=cases),)


def _row(one: CaseNights, *, several: bool) -> Row:
    first_s, newest_s = one.first_s, one.newest_s
    is_told = several and one.series.stack
    return Row(
        {
            "case": f"{one.case.name}, {one.series.text}" if is_told else one.case.name,
            "nights": len(one.times_s),
            "level_s": one.level_s,
            "spread": one.spread,
            "newest_s": newest_s,
            "ratio": newest_s / first_s if newest_s and first_s else None,
            "changes": len(one.changes) or None,
        }
    )
