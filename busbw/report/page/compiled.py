"""What a page says of a session that compiled: its answer, what changed, memory, its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from busbw.model import Outcome, plural

from .. import charts
from ..picture import table_of
from ..reading import CompiledSession
from ..session import compiler_lines
from ..verdicts import compiled_tables, release_lines
from .answers import alike, answers, failed_cases, logs
from .content import Facts, Figure, Listing, Part, Points, Section, Text


def compiled_parts(session: CompiledSession) -> tuple[Part, ...]:
    """The answer and the facts."""
    topologies = dict.fromkeys(one.spec.topology for one in session.verdicts)
    facts = {
        "topologies": ", ".join(topologies),
        "compilers": ", ".join(dict.fromkeys(c.release for c in session.compilers if c.release)),
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        "host": session.host,
        "file": PurePath(session.name).name,
    }
    shown = {name: text for name, text in facts.items() if text}
    return (*answers(session.answer), Facts(facts=shown))


def compiled_sections(session: CompiledSession) -> tuple[Section, ...]:
    """All that a page shows of the session."""
    chart = charts.memory(session)
    figures = () if chart is None else (Figure(picture=chart, table=table_of(chart)),)
    tables = (Listing(table=one) for one in compiled_tables(session.verdicts))
    return (
        Section(heading="What changed", parts=tuple(_changed(session))),
        Section(heading="Memory", parts=figures),
        Section(heading="Compiled cases", parts=tuple(tables)),
    )


# What needs no word: whatever has no compiler is said once for each topology.
_PLAIN = (Outcome.PASS, Outcome.NO_BASELINE, Outcome.SKIPPED)


def _changed(session: CompiledSession) -> Iterator[Part]:
    yield from failed_cases(session.verdicts, session.answer)
    others = [one for one in session.verdicts if not one.failed and one.outcome not in _PLAIN]
    if others:
        yield Points(title="Not as before, and no failure:", points=tuple(alike(others)))
    _, *releases = release_lines(session.verdicts) or [""]
    if releases:
        title, *lines_of = releases
        yield Points(title=title, points=tuple(line.strip() for line in lines_of))
    if not others and not any(one.failed for one in session.verdicts):
        yield Text(text=_unchanged(session))
    missing = [one for one in compiler_lines(session.compilers) if ": none for " in one]
    if missing:
        yield Points(
            title="Without a compiler:",
            points=tuple(one.partition("none for ")[2] for one in missing),
        )
    yield from logs(session.verdicts)


def _unchanged(session: CompiledSession) -> str:
    compared = sum(one.baseline is not None for one in session.verdicts)
    if not compared:
        return "There was nothing to compare with: no case has a baseline."
    return f"Nothing: {plural(compared, 'case')} compiled as the baselines say."
