"""Verdicts as tables: a row for each case, in the order of the grid, and below it the reasons.

Timed and compiled cases have separate tables; several compilers are compared release by release.
Takes what the judge decided, decides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw.collectives import COLLECTIVES
from busbw.model.verdict import Ceiling, Reference, Verdict
from busbw.model.words import Clock, Outcome, payload_text, rate_text

from .figures import PROGRAM_FIGURES, Shown, figures_of, values
from .programs import program_table
from .table import Column, Row, Table, TextLine, attributes, span_text

_BOLD = {"bold": True}
_RED = {"red": True, "bold": True}


_LABEL = Column("payload_bytes", "size", text=payload_text, width=5, fits=True)
_OUTCOME = Column("outcome", "outcome", left=True, gap=2)
_COMPILED_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    *PROGRAM_FIGURES,
    Column("outcome", "outcome", width=14, left=True, gap=2),
    Column("algorithm_text", "algorithm", left=True),
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
    """The verdicts by framework, strategy and dtype, a table for each group.

    The columns are in the order of nccl-tests and fit 80 characters. `verbose` adds the best launch
    and the overhead of a call, and below a failed case its whole reason, which else is left to the
    answer.
    """
    return [
        _table("; ".join(filter(None, (name, changed))), list(alike), verbose)
        for name, alike in itertools.groupby(verdicts, key=_group)
    ]


def legend(verdicts: Sequence[Verdict], *, verbose: bool = False) -> list[str]:
    if not any(verdict.now for verdict in verdicts):
        return []
    lines = ["range: from the fastest to the slowest launch, relative to the time"]
    if any(verdict.limit for verdict in verdicts):
        lines.append(
            "limit: the ratio beyond which a case fails, if additional launches confirm it"
        )
    counts = [one.now.samples for one in verdicts if one.now and one.now.samples]
    if verbose and counts:
        ends = dict.fromkeys((min(counts), max(counts)))
        few = f"; of {' to '.join(map(str, ends))} samples" if min(counts) < 100 else ""
        lines.append(f"p99: over the samples of all launches{few}; first: the first call")
    marks = "".join(map(_marks, verdicts))
    return lines + [text for mark, text in _LEGEND.items() if mark in marks]


def _table(name: str, group: Sequence[Verdict], verbose: bool) -> Table:
    rows = tuple(_row(verdict, verbose) for verdict in group)
    given = {id for row in rows for id, value in row.values.items() if value is not None}
    shown = {Shown.ALWAYS, Shown.VERBOSE} if verbose else {Shown.ALWAYS}
    figures = (
        one
        for one in figures_of(group[0])
        if one.shown in shown or (one.shown is Shown.IF_THERE and one.id in given)
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
        **values(verdict),
        "outcome": " ".join(filter(None, (verdict.outcome.value, _marks(verdict)))),
    }
    return Row(cells, markup=markup, notes=tuple(notes))


def _markup(verdict: Verdict) -> Mapping[str, bool]:
    return _RED if verdict.failed else _MARKUP.get(verdict.outcome, {})


def _marks(verdict: Verdict) -> str:
    return _PROVISIONAL * verdict.provisional + _EXPECTED * verdict.expected


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    found = [v for v in group if v.ceiling is not None]
    several = len({v.ceiling for v in found}) > 1
    return [
        _ceiling_text(ceiling, f" for {_span(list(alike))}" if several else "")
        for ceiling, alike in itertools.groupby(found, key=lambda verdict: verdict.ceiling)
        if ceiling is not None
    ]


def _span(verdicts: Sequence[Verdict]) -> str:
    if not verdicts[0].spec.workload.is_sized:
        return ", ".join(one.spec.strategy for one in verdicts)
    return span_text([one.spec.payload_bytes for one in verdicts])


def _ceiling_text(ceiling: Ceiling, sizes: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{sizes}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _source_notes(group: Sequence[Verdict]) -> list[str]:
    sources = {verdict.published.source for verdict in group if verdict.published}
    return [f"published figures, by another method: {one}" for one in sorted(sources)]


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
    found = []
    for name, group in itertools.groupby(verdicts, key=_compiled_group):
        alike = list(group)
        found.append(
            Table(
                title=TextLine(name, _BOLD),
                columns=_COMPILED_COLUMNS[0 if alike[0].spec.workload.is_sized else 1 :],
                rows=tuple(map(_compiled_row, alike)),
            )
        )
        uses = [one.program.now.uses for one in alike if one.program and one.program.now]
        found += [program_table(one) for one in uses if one]
    return found


def _compiled_group(verdict: Verdict) -> str:
    by = _release(verdict) or verdict.spec.compiler
    by = f" by {by}" if by else ""
    if verdict.case is None:
        return f"{verdict.spec.topology}{by}"
    case = verdict.case
    return f"{verdict.spec.topology}: {case.group_name}, {case.ranks} ranks{by}"


def _compiled_row(verdict: Verdict) -> Row:
    program = verdict.program
    notes = tuple(TextLine(one.text) for one in program.differences) if program else ()
    if not notes and verdict.outcome not in _QUIET:
        notes = (TextLine(verdict.text),)
    cells = {
        "payload_bytes": verdict.spec.payload_bytes,
        **values(verdict),
        **attributes(program.now if program else None, "algorithm_text"),
        "outcome": verdict.outcome.value,
    }
    return Row(cells, markup=_markup(verdict), notes=notes)


def _release(verdict: Verdict) -> str:
    return verdict.program.release if verdict.program else ""


def release_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Several compilers, release by release: what each compiles differently from the one before.

    Neighbouring payloads with the same change share a line, and a topology that every release
    compiles alike has one line.
    """
    own: dict[str, dict[str, list[Verdict]]] = {}
    for one in verdicts:
        own.setdefault(one.spec.topology, {}).setdefault(_release(one), []).append(one)
    # Compilers of different chips are no releases of each other.
    several = {topology: of for topology, of in own.items() if len(of.keys() - {""}) > 1}
    releases = list(dict.fromkeys(name for of in several.values() for name in of if name))
    lines = ["", f"release by release: {' -> '.join(releases)}"] if several else []
    for topology, of in several.items():
        later = [one for name, alike in of.items() if name != releases[0] for one in alike]
        if all(one.outcome is Outcome.PASS for one in later):
            lines.append(f"    {topology}: the same by all of them")
            continue
        for release in releases[1:]:
            runs = itertools.groupby(of.get(release, ()), key=_change_text)
            texts = (f"{_span(list(alike))}: {text}" for text, alike in runs)
            lines += [f"    {topology}, {release}: {text}" for text in texts]
    return lines


def _change_text(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.PASS:
        return "as before"
    found = verdict.program.differences if verdict.program else ()
    if found:
        # Memory that grows with the payload has other figures in every line.
        return "; ".join(one.text for one in found if "memory" not in one.what) or (
            "other amounts of memory"
        )
    if verdict.outcome is Outcome.OUT_OF_MEMORY:
        return "out of memory" if verdict.failed else "out of memory, as before"
    return verdict.headline()
