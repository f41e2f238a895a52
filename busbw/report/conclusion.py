"""Tables of verdicts, and the lines that end the terminal output: failed cases and the verdict.

A table has a row for each of several cases that differ only in payload, with the numbers of the
case. The lines at the end list the failed cases, the worst first, with the reason why each case
failed. Tables contain this reason only if pytest runs with -v.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw import wire
from busbw.model.case import CaseSpec
from busbw.model.verdict import BandwidthCeiling, SessionVerdict, Verdict
from busbw.model.words import (
    Clock,
    Outcome,
    SessionOutcome,
    bandwidth_text,
    payload_text,
    plural,
    ratio_text,
    shorten_list,
)

from .figures import figures_of
from .table import Column, Row, Table, TextLine, payload_span_text

# A sentence or a heading, and the lines or the points of a list below it.
Paragraph = tuple[str, Sequence[str]]

BOLD = {"bold": True}
RED = {"red": True, "bold": True}

_PAYLOAD_COLUMN = Column(
    "payload_bytes", "size", text=payload_text, width=5, is_fitted_to_cells=True
)
_OUTCOME_COLUMN = Column("outcome", "outcome", left_aligned=True, gap=2)
# Tables and summaries show no reason for a case with one of these outcomes.
OUTCOMES_WITHOUT_REASON = (Outcome.PASS, Outcome.NO_BASELINE)

# Marks that follow an outcome. Lines below the tables explain them.
_PROVISIONAL, _EXPECTED = "*", "+"
_LEGEND = {
    _PROVISIONAL: "* provisional: few sessions and a wide limit; sessions of one hour count as one",
    _EXPECTED: "+ expected: the baseline says so",
}

_MARKUP_OF_OUTCOME: Mapping[Outcome, Mapping[str, bool]] = {
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
    """Return a table for each group of successive verdicts whose cases differ only in payload.

    The columns have the order of nccl-tests. If `verbose` is false, they fit into 80 characters.

    Args:
        verdicts: The verdicts in the order of the rows.
        verbose: Whether to add the columns of the best launch and of the overhead of a call, and
            the whole reason below a failed case.
        changed_options: The options that changed the stack on purpose, as text for the titles;
            empty if no option changed it.

    """
    return [
        _group_table("; ".join(filter(None, (name, changed_options))), list(group), verbose)
        for name, group in itertools.groupby(verdicts, key=_table_title)
    ]


def legend_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that explain columns and marks, such as ``*``, in the tables of `verdicts`.

    The list is empty if no case has a time.
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
    """Return the table of a group of verdicts whose cases differ only in payload."""
    rows = tuple(_verdict_row(verdict, verbose) for verdict in group)
    present = {id for row in rows for id, value in row.values.items() if value is not None}
    figures = (
        figure
        for figure in dict.fromkeys(itertools.chain.from_iterable(map(figures_of, group)))
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
    """Return the row of a verdict: its payload, its figures and its outcome, with notes below."""
    markup = verdict_markup(verdict)
    notes = [TextLine(note, {"yellow": True}) for note in verdict.notes]
    if verdict.outcome not in OUTCOMES_WITHOUT_REASON and (verbose or not verdict.failed):
        notes.insert(0, TextLine(verdict.text, markup))
    published = verdict.published
    if published is not None:
        rate = published.algbw_gb_per_s
        figure = "out of memory" if rate is None else f"algbw {rate:.4g} GB/s"
        doubt = f" ({published.doubt})" if published.doubt else ""
        notes.append(TextLine(f"published: {figure}{doubt}"))
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **{figure.id: figure.compute(verdict) for figure in figures_of(verdict)},
        "outcome": " ".join(filter(None, (verdict.outcome.value, _outcome_marks(verdict)))),
    }
    return Row(cells, markup=markup, notes=tuple(notes))


def verdict_markup(verdict: Verdict) -> Mapping[str, bool]:
    """Return the markup of a verdict for pytest's terminal writer, such as ``{"green": True}``."""
    return RED if verdict.failed else _MARKUP_OF_OUTCOME.get(verdict.outcome, {})


def _outcome_marks(verdict: Verdict) -> str:
    """Return the marks that follow the outcome of a verdict, such as ``*``; empty without marks."""
    return _PROVISIONAL * verdict.provisional + _EXPECTED * verdict.expected


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    """Return a line for each ceiling of the verdicts, with its payloads if ceilings differ."""
    verdicts = [verdict for verdict in group if verdict.ceiling is not None]
    several = len({verdict.ceiling for verdict in verdicts}) > 1
    return [
        _ceiling_text(ceiling, f" for {payloads_or_programs_text(list(alike))}" if several else "")
        for ceiling, alike in itertools.groupby(verdicts, key=lambda verdict: verdict.ceiling)
        if ceiling is not None
    ]


def payloads_or_programs_text(verdicts: Sequence[Verdict]) -> str:
    """Return the payloads of verdicts as text or, for verdicts on programs, the programs' names.

    `verdicts` is not empty. More than four payloads become a text such as ``1M to 64M``.
    """
    if not verdicts[0].spec.is_single_collective:
        return ", ".join(verdict.spec.strategy for verdict in verdicts)
    return payload_span_text([verdict.spec.payload_bytes for verdict in verdicts])


def _ceiling_text(ceiling: BandwidthCeiling, payloads_text: str) -> str:
    """Return a line with a ceiling in GB/s and its reason.

    `payloads_text` says which payloads have this ceiling, such as `` for 1M, 4M``; may be empty.
    """
    text = f"ceiling {bandwidth_text(ceiling.bytes_per_s)}{payloads_text}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {bandwidth_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _table_title(verdict: Verdict) -> str:
    """Return the title of the table to which a verdict belongs; equal titles share a table."""
    case = verdict.case
    if case is None:
        return verdict.spec.framework
    clock = f", {case.clock.value} clock" if case.clock is not Clock.HOST else ""
    return f"{case.family_name}, {case.ranks} ranks{clock}"


_MAX_CASES = 4
_MAX_LINES = 8
# A longer reason is cut, because tables with -v and results contain the whole reason.
_MAX_REASON_CHARACTERS = 300


def conclusion_lines(
    verdicts: Sequence[Verdict],
    session_verdict: SessionVerdict,
    failing_since_texts: Sequence[str] = (),
) -> list[TextLine]:
    """Return the lines that end the terminal output; the last line is the session's verdict.

    The first lines are on the failed cases. Then follow `failing_since_texts`, lines that say since
    which session cases fail.
    """
    passed = "green" if session_verdict.outcome is SessionOutcome.PASS else "yellow"
    last = TextLine(session_verdict.headline(), {"red" if session_verdict.failed else passed: True})
    failed = [TextLine(line, RED) for line in failed_case_lines(verdicts)]
    return [*failed, *map(TextLine, failing_since_texts), last]


def failed_case_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that name the failed cases, the worst cases first.

    Cases of the same kind (framework, collective, strategy and so on) that failed with the same
    outcome share a line, such as
    ``2 REGRESSED: jax 256K 3.50 x (limit 2.00 x), 64K 2.10 x (limit 1.90 x)``. After at most eight
    such lines, a last line gives the number of the other failed cases.
    """
    severity_order = list(Outcome)
    failed = [verdict for verdict in verdicts if verdict.failed]
    failed.sort(key=lambda v: (severity_order.index(v.outcome), -(v.ratio or 0.0)))
    kinds = itertools.groupby(failed, key=lambda v: (v.outcome, _case_label(v.spec)))
    groups = [list(group) for _, group in kinds]
    lines = [_failure_line(group) for group in groups[:_MAX_LINES]]
    left_out = sum(map(len, groups[_MAX_LINES:]))
    return lines + ([f"and {plural(left_out, 'case')} more: see the tables"] if left_out else [])


def failure_logs(verdicts: Sequence[Verdict]) -> list[Paragraph]:
    """Return paragraphs with the details of failures, such as the end of a worker's log.

    Cases with equal details share a paragraph. The heading of a paragraph has the id of the first
    case with these details, and the number of the other cases. Failed cases without details, such
    as slower cases, are left out.
    """
    case_ids_by_details: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        _, *details = map(wire.escape_workflow_commands, verdict.explain().splitlines())
        if verdict.failed and details:
            case_ids_by_details.setdefault(tuple(details), []).append(verdict.spec.id)
    return [
        (" ".join(shorten_list(case_ids, 1, "case")), lines)
        for lines, case_ids in case_ids_by_details.items()
    ]


# The labels of failed cases leave out these names, which most cases have.
_USUAL_NAMES = ("", "all_reduce", "sum", "none", "in_place", "default", "float32")


def _case_label(spec: CaseSpec) -> str:
    """Return the label of a case: the framework and unusual names, such as ``jax all_gather``."""
    # For a program, its name (the strategy) is shown where other cases show the payload.
    others = () if spec.is_single_collective else (spec.collective, spec.strategy)
    names = (name for name in spec.label_parts if name not in (*_USUAL_NAMES, *others))
    return " ".join([spec.framework, *names])


def _failure_line(group: Sequence[Verdict]) -> str:
    """Return the line for failed cases that have the same outcome and the same label."""
    head = f"{len(group)} {group[0].outcome.value}: {_case_label(group[0].spec)}"
    if group[0].ratio is not None and group[0].outcome is not Outcome.CHANGED:
        return f"{head} {', '.join(shorten_list([*map(_ratio_text, group)], _MAX_CASES, 'case'))}"
    reasons = itertools.groupby(group, key=lambda verdict: verdict.text)
    texts = [
        f"{payloads_or_programs_text(list(alike))}: {reason[:_MAX_REASON_CHARACTERS]}"
        + ("..." if len(reason) > _MAX_REASON_CHARACTERS else "")
        for reason, alike in reasons
    ]
    return f"{head} {'; '.join(shorten_list(texts, _MAX_CASES, 'reason'))}"


def _ratio_text(verdict: Verdict) -> str:
    """Return the payload, ratio and limit of a case: ``256K 3.50 x (limit 2.00 x)``."""
    limit = "" if verdict.limit is None else f" (limit {ratio_text(verdict.limit)} x)"
    ratio = ratio_text(verdict.ratio or 0.0)
    return f"{payload_text(verdict.spec.payload_bytes)} {ratio} x{limit}"
