"""What was compiled: tables, releases one after another, and a document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from busbw.model import (
    CompiledBaseline,
    CompiledVerdict,
    Compiler,
    Outcome,
    SessionVerdict,
    bytes_text,
    payload_text,
)

from .results import fields_of, session_fields
from .table import Column, Row, Table, TextLine, attributes
from .verdicts import MARKUP

SCHEMA = 1

_COLUMNS = (
    Column("payload_bytes", "payload", text=payload_text, width=8),
    Column("temporary_bytes", "temporary", text=bytes_text, width=11),
    Column("peak_bytes", "peak", text=bytes_text, width=11),
    Column("outcome", "outcome", width=14, left=True, gap=2),
    Column("algorithm_text", "algorithm", left=True),
)
_QUIET = (Outcome.PASS, Outcome.NO_BASELINE)


# Of a case, in the order in which the document has them.
_FIELDS = (
    *("spec", "outcome", "failed", "text", "case", "release", "now", "baseline", "differences"),
    *("failure", "expected", "notes"),
)


def compiler_lines(compilers: Sequence[Compiler]) -> list[str]:
    """Each compiler once with its topologies, and those for which there is none."""
    there = [one for one in compilers if not one.missing]
    lines = []
    for release, group in itertools.groupby(sorted(there, key=_release), key=_release):
        names = ", ".join(dict.fromkeys(one.topology for one in group))
        lines.append(f"busbw compiler: {release} for {names}")
    absent = [one for one in compilers if one.missing]
    return lines + [f"busbw compiler: none for {one.topology}: {one.missing}" for one in absent]


def _release(compiler: Compiler) -> str:
    return compiler.release


def compiled_tables(verdicts: Sequence[CompiledVerdict]) -> list[Table]:
    """A table for each topology and compiler; below each case what changed, both sides."""
    return [
        Table(title=TextLine(name, {"bold": True}), columns=_COLUMNS, rows=tuple(map(_row, group)))
        for name, group in itertools.groupby(verdicts, key=_group)
    ]


def _group(verdict: CompiledVerdict) -> str:
    by = verdict.release or verdict.spec.compiler
    by = f" by {by}" if by else ""
    if verdict.case is None:
        return f"{verdict.spec.topology}{by}"
    case = verdict.case
    return f"{verdict.spec.topology}: {case.group_name}, {case.ranks} ranks{by}"


def _row(verdict: CompiledVerdict) -> Row:
    notes = tuple(TextLine(one.text) for one in verdict.differences)
    if not notes and verdict.outcome not in _QUIET:
        notes = (TextLine(verdict.text),)
    values = {
        "payload_bytes": verdict.spec.spec.payload_bytes,
        **attributes(verdict.now, "temporary_bytes", "peak_bytes", "algorithm_text"),
        "outcome": verdict.outcome.value,
    }
    return Row(values, markup=MARKUP.get(verdict.outcome, {}), notes=notes)


def release_lines(verdicts: Sequence[CompiledVerdict]) -> list[str]:
    """Several compilers release by release: what each made otherwise than the one before it.

    Payloads in a row that a compiler treats alike share a line, and a topology that no release
    treats otherwise has one.
    """
    releases = list(dict.fromkeys(one.release for one in verdicts if one.release))
    if len(releases) < 2:
        return []
    lines = ["", f"release by release: {' -> '.join(releases)}"]
    for topology in dict.fromkeys(one.spec.topology for one in verdicts):
        further = [one for one in verdicts if one.spec.topology == topology]
        further = [one for one in further if one.release != releases[0]]
        if all(one.outcome is Outcome.PASS for one in further):
            lines.append(f"    {topology}: the same by all of them")
            continue
        for release in releases[1:]:
            mine = [one for one in further if one.release == release]
            lines += [f"    {topology}, {release}: {text}" for text in _runs(mine)]
    return lines


def _runs(verdicts: Sequence[CompiledVerdict]) -> Iterator[str]:
    """Neighbours in size with the same text as one: ``1M to 64M: ...``."""
    for text, group in itertools.groupby(verdicts, key=_told):
        sizes = [payload_text(one.spec.spec.payload_bytes) for one in group]
        span = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        yield f"{span}: {text}"


def _told(verdict: CompiledVerdict) -> str:
    if verdict.outcome is Outcome.PASS:
        return "as before"
    if verdict.differences:
        # Memory that grows with the payload has other figures in every line.
        return "; ".join(one.text for one in verdict.differences if "memory" not in one.what) or (
            "other amounts of memory"
        )
    if verdict.outcome is Outcome.OUT_OF_MEMORY:
        return "out of memory" if verdict.failed else "out of memory, as before"
    return verdict.headline()


def compiled_change_lines(
    changes: Sequence[tuple[str, CompiledBaseline | None, CompiledBaseline]],
) -> list[str]:
    """What was written, before and after, by file."""
    lines = []
    for path, group in itertools.groupby(changes, key=lambda change: change[0]):
        lines.append(f"wrote {path}")
        for _, before, after in group:
            size = payload_text(after.case.payload_bytes)
            lines.append(f"    {size}: {_side(before)} -> {_side(after)}")
    return lines


def _side(side: CompiledBaseline | None) -> str:
    if side is None:
        return "none"
    return "out of memory" if side.compiled is None else side.compiled.algorithm_text


def compiled_document(
    verdicts: Sequence[CompiledVerdict],
    session: SessionVerdict | None,
    compilers: Sequence[Compiler],
) -> dict[str, object]:
    """The session as plain dicts, lists, strings, numbers and None; docs/compiled.schema.json."""
    return {
        "schema": SCHEMA,
        "session": session_fields(session),
        "compilers": [fields_of(one) for one in compilers],
        "cases": [_case(one) for one in verdicts],
    }


def _case(verdict: CompiledVerdict) -> dict[str, object]:
    fields = fields_of(verdict)
    return {"id": verdict.spec.id, **{name: fields[name] for name in _FIELDS}}
