"""Tables of verdicts: a row for each case, with the reason for its outcome below the row.

Each table has cases that differ only in payload. Other cases are in other tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw.model.verdict import Ceiling, Verdict
from busbw.model.words import Clock, Outcome, payload_text, rate_text

from .figures import figures_of
from .table import Column, Row, Table, TextLine, payload_span_text

BOLD = {"bold": True}
RED = {"red": True, "bold": True}

_PAYLOAD_COLUMN = Column(
    "payload_bytes", "size", text=payload_text, width=5, is_fitted_to_cells=True
)
_OUTCOME_COLUMN = Column("outcome", "outcome", left_aligned=True, gap=2)
# Tables and summaries show no reason for a case with one of these outcomes.
QUIET_OUTCOMES = (Outcome.PASS, Outcome.NO_BASELINE)

# Marks that follow an outcome. Lines below the tables explain them.
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
    verdicts: Sequence[Verdict], *, verbose: bool = False, changed_options: str = ""
) -> list[Table]:
    """Return a table for each group of cases that differ only in payload.

    The columns have the order of nccl-tests. Without `verbose` they fit into 80 characters.

    Args:
        verdicts: The verdicts in the order of the rows.
        verbose: Whether to add the columns of the best launch and of the overhead of a call, and
            the whole reason below a failed case. Otherwise only the lines that end the terminal
            output contain the reason.
        changed_options: The options that changed the stack on purpose, as text for the titles.

    """
    return [
        _group_table("; ".join(filter(None, (name, changed_options))), list(group), verbose)
        for name, group in itertools.groupby(verdicts, key=_table_title)
    ]


def legend_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that explain the columns and the marks in the tables of `verdicts`.

    The list is empty if no case was timed.
    """
    if not any(verdict.now for verdict in verdicts):
        return []
    lines = ["range: from the fastest to the slowest launch, relative to the time"]
    if any(verdict.limit for verdict in verdicts):
        lines.append(
            "limit: the ratio beyond which a case fails, if additional launches confirm it"
        )
    marks = "".join(map(_outcome_marks, verdicts))
    return lines + [text for mark, text in _LEGEND.items() if mark in marks]


def _group_table(title: str, group: Sequence[Verdict], verbose: bool) -> Table:
    rows = tuple(_verdict_row(verdict, verbose) for verdict in group)
    present = {id for row in rows for id, value in row.values.items() if value is not None}
    figures = (
        figure
        for figure in figures_of(group[0])
        if figure.heading and figure.id in present and (verbose or not figure.is_verbose)
    )
    published = {verdict.published.source for verdict in group if verdict.published}
    sources = (f"published figures, by another method: {source}" for source in sorted(published))
    return Table(
        title=TextLine(title, BOLD),
        columns=(_PAYLOAD_COLUMN, *figures, _OUTCOME_COLUMN),
        rows=rows,
        notes=(*_ceiling_notes(group), *sources),
    )


def _verdict_row(verdict: Verdict, verbose: bool) -> Row:
    markup = verdict_markup(verdict)
    notes = [TextLine(note, {"yellow": True}) for note in verdict.notes]
    if verdict.outcome not in QUIET_OUTCOMES and (verbose or not verdict.failed):
        notes.insert(0, TextLine(verdict.text, markup))
    reference = verdict.published
    if reference is not None:
        figure = "out of memory" if reference.oom else f"algbw {reference.algbw_gb_per_s:.4g} GB/s"
        doubt = f" ({reference.doubt})" if reference.doubt else ""
        notes.append(TextLine(f"published: {figure}{doubt}"))
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **{figure.id: figure.compute(verdict) for figure in figures_of(verdict)},
        "outcome": " ".join(filter(None, (verdict.outcome.value, _outcome_marks(verdict)))),
    }
    return Row(cells, markup=markup, notes=tuple(notes))


def verdict_markup(verdict: Verdict) -> Mapping[str, bool]:
    """Return the markup of a verdict on a terminal, such as ``{"green": True}``."""
    return RED if verdict.failed else _MARKUP.get(verdict.outcome, {})


def _outcome_marks(verdict: Verdict) -> str:
    return _PROVISIONAL * verdict.provisional + _EXPECTED * verdict.expected


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    verdicts = [verdict for verdict in group if verdict.ceiling is not None]
    several = len({verdict.ceiling for verdict in verdicts}) > 1
    return [
        _ceiling_text(ceiling, f" for {payloads_or_programs_text(list(alike))}" if several else "")
        for ceiling, alike in itertools.groupby(verdicts, key=lambda verdict: verdict.ceiling)
        if ceiling is not None
    ]


def payloads_or_programs_text(verdicts: Sequence[Verdict]) -> str:
    """Return a text with the payloads of verdicts, or with the names of programs for programs."""
    if not verdicts[0].spec.is_sized:
        return ", ".join(verdict.spec.strategy for verdict in verdicts)
    return payload_span_text([verdict.spec.payload_bytes for verdict in verdicts])


def _ceiling_text(ceiling: Ceiling, payloads_text: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{payloads_text}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _table_title(verdict: Verdict) -> str:
    case = verdict.case
    if case is None:
        return verdict.family_name
    clock = f", {case.clock.value} clock" if case.clock is not Clock.HOST else ""
    return f"{case.family_name}, {case.ranks} ranks{clock}"
