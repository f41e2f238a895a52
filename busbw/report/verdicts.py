"""Verdicts as tables: a row for each case, in the order of the grid, and below it the reasons.

Timed and compiled cases have separate tables; several compilers are compared release by release.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw.collectives import COLLECTIVES
from busbw.model.verdict import Ceiling, Reference, Verdict
from busbw.model.words import Clock, Outcome, payload_text, rate_text

from .figures import PROGRAM_FIGURES, Visibility, figure_values, figures_of
from .programs import program_table
from .table import Column, Row, Table, TextLine, attributes, span_text

_BOLD = {"bold": True}
_RED = {"red": True, "bold": True}

_LABEL = Column("payload_bytes", "size", text=payload_text, width=5, fits=True)
_OUTCOME = Column("outcome", "outcome", left_aligned=True, gap=2)
_COMPILED_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    *PROGRAM_FIGURES,
    Column("outcome", "outcome", width=14, left_aligned=True, gap=2),
    Column("algorithm_text", "algorithm", left_aligned=True),
)
_QUIET = (Outcome.PASS, Outcome.NO_BASELINE)

# Marks right of an outcome, explained below the tables.
_PROVISIONAL, _EXPECTED = "*", "+"
_LEGEND = {
    _PROVISIONAL: "* provisional: few sessions and a wide limit; those within an hour are one",
    _EXPECTED: "+ expected: the baseline says so",
}

_MARKUP: Mapping[Outcome, Mapping[str, bool]] = {
    Outcome.PASS: {"green": True},
    Outcome.NOISY: {"yellow": True},
    Outcome.REGRESSED: _RED,
    Outcome.FAILED: _RED,
    Outcome.OUT_OF_MEMORY: {"yellow": True},
    Outcome.IMPROVED: {"cyan": True},
    Outcome.INCOMPARABLE: {"yellow": True},
    Outcome.CHANGED: {"red": True},
    Outcome.COMPILE_ERROR: _RED,
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


def legend(verdicts: Sequence[Verdict], *, verbose: bool = False) -> list[str]:
    """Return lines that explain the columns and marks of the tables of `verdicts`."""
    if not any(verdict.now for verdict in verdicts):
        return []
    lines = ["range: from the fastest to the slowest launch, relative to the time"]
    if any(verdict.limit for verdict in verdicts):
        lines.append(
            "limit: the ratio beyond which a case fails, if additional launches confirm it"
        )
    counts = [v.now.samples for v in verdicts if v.now and v.now.samples]
    if verbose and counts:
        ends = dict.fromkeys((min(counts), max(counts)))
        few = f"; of {' to '.join(map(str, ends))} samples" if min(counts) < 100 else ""
        lines.append(f"p99: over the samples of all launches{few}; first: the first call")
    marks = "".join(map(_marks, verdicts))
    return lines + [text for mark, text in _LEGEND.items() if mark in marks]


def _table(name: str, group: Sequence[Verdict], verbose: bool) -> Table:
    rows = tuple(_row(verdict, verbose) for verdict in group)
    present = {id for row in rows for id, value in row.values.items() if value is not None}
    visible = {Visibility.ALWAYS, Visibility.VERBOSE} if verbose else {Visibility.ALWAYS}
    figures = (
        figure
        for figure in figures_of(group[0])
        if figure.visibility in visible
        or (figure.visibility is Visibility.IF_PRESENT and figure.id in present)
    )
    return Table(
        title=TextLine(name, _BOLD),
        columns=(_LABEL, *figures, _OUTCOME),
        rows=rows,
        notes=(*_ceiling_notes(group), *_source_notes(group)),
    )


def _row(verdict: Verdict, verbose: bool) -> Row:
    markup = _markup(verdict)
    notes = [TextLine(note, {"yellow": True}) for note in verdict.notes]
    if verdict.outcome not in _QUIET and (verbose or not verdict.failed):
        notes.insert(0, TextLine(verdict.text, markup))
    if verdict.published is not None:
        notes.append(TextLine(_reference_text(verdict.published)))
    cells = {
        **attributes(verdict.spec, "payload_bytes"),
        **figure_values(verdict),
        "outcome": " ".join(filter(None, (verdict.outcome.value, _marks(verdict)))),
    }
    return Row(cells, markup=markup, notes=tuple(notes))


def _markup(verdict: Verdict) -> Mapping[str, bool]:
    return _RED if verdict.failed else _MARKUP.get(verdict.outcome, {})


def _marks(verdict: Verdict) -> str:
    return _PROVISIONAL * verdict.provisional + _EXPECTED * verdict.expected


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    verdicts = [verdict for verdict in group if verdict.ceiling is not None]
    several = len({verdict.ceiling for verdict in verdicts}) > 1
    return [
        _ceiling_text(ceiling, f" for {_span(list(alike))}" if several else "")
        for ceiling, alike in itertools.groupby(verdicts, key=lambda verdict: verdict.ceiling)
        if ceiling is not None
    ]


def _span(verdicts: Sequence[Verdict]) -> str:
    if not verdicts[0].spec.workload.is_sized:
        return ", ".join(verdict.spec.strategy for verdict in verdicts)
    return span_text([verdict.spec.payload_bytes for verdict in verdicts])


def _ceiling_text(ceiling: Ceiling, sizes: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{sizes}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _source_notes(group: Sequence[Verdict]) -> list[str]:
    sources = {verdict.published.source for verdict in group if verdict.published}
    return [f"published figures, by another method: {source}" for source in sorted(sources)]


def _group(verdict: Verdict) -> str:
    case = verdict.case
    if case is None:
        return f"{verdict.spec.framework} {verdict.spec.collective} {verdict.spec.dtype}"
    parts = [f"{case.framework} {case.collective} ({case.strategy})", f"{case.ranks} ranks"]
    if case.axes:
        parts[-1] += f", {len(case.groups)} groups of {case.group_size} along {case.axes}"
    parts.append(case.dtype if case.reduce_op == "none" else f"{case.reduce_op} of {case.dtype}")
    unusual = case.placement != COLLECTIVES[case.collective].placements[0]
    parts += [case.placement.replace("_", " ")] if unusual else []
    parts += [f"{case.clock.value} clock"] if case.clock is not Clock.HOST else []
    return ", ".join(parts)


def _reference_text(reference: Reference) -> str:
    figure = "out of memory" if reference.oom else f"algbw {reference.algbw_gb_per_s:.4g} GB/s"
    doubt = f" ({reference.doubt})" if reference.doubt else ""
    return f"published: {figure}{doubt}"


def compiled_tables(verdicts: Sequence[Verdict]) -> list[Table]:
    """Return a table for each topology and compiler, and one of each program's collectives."""
    tables = []
    for name, group in itertools.groupby(verdicts, key=_compiled_group):
        alike = list(group)
        tables.append(
            Table(
                title=TextLine(name, _BOLD),
                columns=_COMPILED_COLUMNS[0 if alike[0].spec.workload.is_sized else 1 :],
                rows=tuple(map(_compiled_row, alike)),
            )
        )
        programs = [v.program.now for v in alike if v.program and v.program.now]
        tables += [program_table(program.uses) for program in programs if program.uses]
    return tables


def _compiled_group(verdict: Verdict) -> str:
    by = _release(verdict) or verdict.spec.compiler
    by = f" by {by}" if by else ""
    if verdict.case is None:
        return f"{verdict.spec.topology}{by}"
    case = verdict.case
    return f"{verdict.spec.topology}: {case.group_name}, {case.ranks} ranks{by}"


def _compiled_row(verdict: Verdict) -> Row:
    program = verdict.program
    differences = program.differences if program else ()
    notes = tuple(TextLine(difference.text) for difference in differences)
    if not notes and verdict.outcome not in _QUIET:
        notes = (TextLine(verdict.text),)
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **figure_values(verdict),
        **attributes(program.now if program else None, "algorithm_text"),
        "outcome": verdict.outcome.value,
    }
    return Row(cells, markup=_markup(verdict), notes=notes)


def _release(verdict: Verdict) -> str:
    return verdict.program.release if verdict.program else ""


def release_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return what each release of a compiler compiles differently from the release before.

    Neighbouring payloads with the same change share a line, and a topology that every release
    compiles alike has one line.
    """
    topologies: dict[str, dict[str, list[Verdict]]] = {}
    for verdict in verdicts:
        by_release = topologies.setdefault(verdict.spec.topology, {})
        by_release.setdefault(_release(verdict), []).append(verdict)
    # Compilers of different chips are no releases of each other.
    several = {
        topology: by_release
        for topology, by_release in topologies.items()
        if len(by_release.keys() - {""}) > 1
    }
    releases = list(
        dict.fromkeys(name for by_release in several.values() for name in by_release if name)
    )
    lines = ["", f"release by release: {' -> '.join(releases)}"] if several else []
    for topology, by_release in several.items():
        later = [v for name, alike in by_release.items() if name != releases[0] for v in alike]
        if all(verdict.outcome is Outcome.PASS for verdict in later):
            lines.append(f"    {topology}: the same by all of them")
            continue
        for release in releases[1:]:
            runs = itertools.groupby(by_release.get(release, ()), key=_change_text)
            texts = (f"{_span(list(alike))}: {text}" for text, alike in runs)
            lines += [f"    {topology}, {release}: {text}" for text in texts]
    return lines


def _change_text(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.PASS:
        return "as before"
    differences = verdict.program.differences if verdict.program else ()
    if differences:
        # Memory that grows with the payload has other figures in every line.
        texts = [change.text for change in differences if "memory" not in change.what]
        return "; ".join(texts) or "other amounts of memory"
    if verdict.outcome is Outcome.OUT_OF_MEMORY:
        return "out of memory" if verdict.failed else "out of memory, as before"
    return verdict.headline()
