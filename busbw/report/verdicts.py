"""Verdicts as tables: a row for each case, in the order of the grid, and below it the reasons.

A table compares the cases of one kind; several kinds have separate tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw.model.verdict import Ceiling, Verdict
from busbw.model.words import Clock, Outcome, payload_text, rate_text

from .figures import figure_values, figures_of
from .table import Column, Row, Table, TextLine, attributes, span_text

BOLD = {"bold": True}
RED = {"red": True, "bold": True}

_LABEL = Column("payload_bytes", "size", text=payload_text, width=5, fits=True)
_OUTCOME = Column("outcome", "outcome", left_aligned=True, gap=2)
QUIET = (Outcome.PASS, Outcome.NO_BASELINE)

# Marks right of an outcome, explained below the tables.
_PROVISIONAL, _EXPECTED = "*", "+"
_LEGEND = {
    _PROVISIONAL: "* provisional: few sessions and a wide limit; sessions of one hour count as one",
    _EXPECTED: "+ expected: the baseline says so",
}

_MARKUP: Mapping[Outcome, Mapping[str, bool]] = {
    Outcome.PASS: {"green": True},
    Outcome.NOISY: {"yellow": True},
    Outcome.REGRESSED: RED,
    Outcome.FAILED: RED,
    Outcome.OUT_OF_MEMORY: {"yellow": True},
    Outcome.IMPROVED: {"cyan": True},
    Outcome.INCOMPARABLE: {"yellow": True},
    Outcome.CHANGED: {"red": True},
    Outcome.COMPILE_ERROR: RED,
}


def verdict_tables(
    verdicts: Sequence[Verdict], *, verbose: bool = False, changed: str = ""
) -> list[Table]:
    """Return a table for each group of cases: a framework, strategy and dtype.

    The columns are in the order of nccl-tests and fit 80 characters.

    Args:
        verdicts: The verdicts in the order of the rows.
        verbose: Add the best launch and the overhead of a call, and below a failed case its whole
            reason, which otherwise is in the answer alone.
        changed: What options changed on purpose, for the title.

    """
    return [
        _table("; ".join(filter(None, (name, changed))), list(group), verbose)
        for name, group in itertools.groupby(verdicts, key=_group)
    ]


def legend(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that explain the columns and marks of the tables of `verdicts`."""
    if not any(verdict.now for verdict in verdicts):
        return []
    lines = ["range: from the fastest to the slowest launch, relative to the time"]
    if any(verdict.limit for verdict in verdicts):
        lines.append(
            "limit: the ratio beyond which a case fails, if additional launches confirm it"
        )
    marks = "".join(map(_marks, verdicts))
    return lines + [text for mark, text in _LEGEND.items() if mark in marks]


def _table(name: str, group: Sequence[Verdict], verbose: bool) -> Table:
    rows = tuple(_row(verdict, verbose) for verdict in group)
    present = {id for row in rows for id, value in row.values.items() if value is not None}
    figures = (
        figure
        for figure in figures_of(group[0])
        if figure.heading and figure.id in present and (verbose or not figure.is_verbose)
    )
    published = {verdict.published.source for verdict in group if verdict.published}
    sources = (f"published figures, by another method: {source}" for source in sorted(published))
    return Table(
        title=TextLine(name, BOLD),
        columns=(_LABEL, *figures, _OUTCOME),
        rows=rows,
        notes=(*_ceiling_notes(group), *sources),
    )


def _row(verdict: Verdict, verbose: bool) -> Row:
    markup = markup_of(verdict)
    notes = [TextLine(note, {"yellow": True}) for note in verdict.notes]
    if verdict.outcome not in QUIET and (verbose or not verdict.failed):
        notes.insert(0, TextLine(verdict.text, markup))
    reference = verdict.published
    if reference is not None:
        figure = "out of memory" if reference.oom else f"algbw {reference.algbw_gb_per_s:.4g} GB/s"
        doubt = f" ({reference.doubt})" if reference.doubt else ""
        notes.append(TextLine(f"published: {figure}{doubt}"))
    cells = {
        **attributes(verdict.spec, "payload_bytes"),
        **figure_values(verdict),
        "outcome": " ".join(filter(None, (verdict.outcome.value, _marks(verdict)))),
    }
    return Row(cells, markup=markup, notes=tuple(notes))


def markup_of(verdict: Verdict) -> Mapping[str, bool]:
    """Return how a terminal shows a verdict."""
    return RED if verdict.failed else _MARKUP.get(verdict.outcome, {})


def _marks(verdict: Verdict) -> str:
    return _PROVISIONAL * verdict.provisional + _EXPECTED * verdict.expected


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    verdicts = [verdict for verdict in group if verdict.ceiling is not None]
    several = len({verdict.ceiling for verdict in verdicts}) > 1
    return [
        _ceiling_text(ceiling, f" for {span_of(list(alike))}" if several else "")
        for ceiling, alike in itertools.groupby(verdicts, key=lambda verdict: verdict.ceiling)
        if ceiling is not None
    ]


def span_of(verdicts: Sequence[Verdict]) -> str:
    """Return the payloads of verdicts, or the names of programs."""
    if not verdicts[0].spec.is_sized:
        return ", ".join(verdict.spec.strategy for verdict in verdicts)
    return span_text([verdict.spec.payload_bytes for verdict in verdicts])


def _ceiling_text(ceiling: Ceiling, sizes: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{sizes}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _group(verdict: Verdict) -> str:
    case = verdict.case
    if case is None:
        return verdict.family_name
    clock = f", {case.clock.value} clock" if case.clock is not Clock.HOST else ""
    return f"{case.family_name}, {case.ranks} ranks{clock}"
