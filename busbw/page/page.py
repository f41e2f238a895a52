"""A page of sessions and their history: answer, changes, charts and tables.

`content` has the parts of a page as values, `html` and `summary` decide how they are written, and
`history` what is said of nights. Judges nothing and reads no file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, bytes_text, plural, ratio_text
from busbw.report.answer import answer_lines, failure_lines
from busbw.report.reading import CompiledSession, Session
from busbw.report.session import compiler_lines, session_tables, shape_text, versions_text
from busbw.report.table import span_text
from busbw.report.verdicts import compiled_tables, legend, release_lines

from .chart import Chart
from .content import Answer, Facts, Figure, Listing, Log, Page, Part, Section, Text, filled
from .curves import MOST_CURVES, bandwidth, comparison, curves_of, measured, memory, points
from .history import machine_sections, since_when
from .nights import MachineNights
from .spread import launches, processes, ranks

AnySession = Session | CompiledSession


def page(sessions: Sequence[AnySession], machines: Sequence[MachineNights] = ()) -> Page:
    history = machine_sections(machines)
    if len(sessions) == 1:
        only = _section(sessions[0], history, since_when(sessions[0].verdicts, machines))
        return Page(title=_title(sessions[0]), parts=only.parts, sections=only.sections)
    machine = machines[0].folder if len(machines) == 1 else plural(len(machines), "machine")
    title = plural(len(sessions), "session") if sessions else f"History of {machine}"
    return Page(title=title, sections=(*_together(sessions), *history, *map(_section, sessions)))


def _title(session: AnySession) -> str:
    if isinstance(session, CompiledSession):
        return "Collectives as they are compiled"
    key = session.environment.key
    names = {one.case.collective for one in session.verdicts if one.case is not None}
    what = names.pop().replace("_", "-").capitalize() if len(names) == 1 else "Collectives"
    return f"{what} on {key.device_kind}, {plural(key.ranks, 'rank')}"


def _section(
    session: AnySession, history: Sequence[Section] = (), since: Sequence[str] = ()
) -> Section:
    heading = f"{_title(session)}, {session.began:%Y-%m-%d %H:%M} UTC"
    if isinstance(session, CompiledSession):
        parts, sections = compiled_parts(session), (*compiled_sections(session), *history)
    else:
        parts, sections = session_parts(session), session_sections(session, history, since)
    return Section(heading=heading, parts=parts, sections=sections)


def _together(sessions: Sequence[AnySession]) -> tuple[Section, ...]:
    measured = [one for one in sessions if isinstance(one, Session)]
    if len(measured) < 2:
        return ()
    try:
        chart = bandwidth(measured)
    except ValueError:
        # Nothing to draw, or more than a reader can follow: each session has its own charts.
        return ()
    return (Section(heading="Bandwidth of all sessions", parts=(Figure(picture=chart),)),)


# More curves than these have a chart each, too; what failed comes first.
_FEW = 3
_MOST_REASONS = 12


def session_parts(session: Session) -> tuple[Part, ...]:
    injected = _injected(session)
    real = (Text(text=f"injected: {injected}; the times are not real."),) if injected else ()
    return (
        *real,
        *_answers(session.answer),
        _facts(_environment(session)),
        _facts(_details(session), "The session in detail"),
    )


def _facts(facts: Mapping[str, str], title: str = "") -> Facts:
    return Facts(facts={name: text for name, text in facts.items() if text}, title=title)


def _environment(session: Session) -> dict[str, str]:
    environment, key = session.environment, session.environment.key
    cores = f", {key.cores} cores" if key.cores else ""
    hosts = session.process_hosts if key.processes > 1 else (environment.host,)
    runs = ((m.case.framework, run) for m in session.references.values() for run in m.runs)
    references: dict[str, str] = {}
    for framework, run in runs:
        references.setdefault(f"{framework}, reference", versions_text(run.versions))
    return {
        "device": f"{key.device_kind}{cores}",
        "ranks": f"{plural(key.ranks, 'rank')}{shape_text(key)}",
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        **{name: versions_text(one) for name, one in environment.versions.items()},
        **references,
        "changed": environment.changed,
        "host" if len(set(hosts)) == 1 else "hosts": ", ".join(dict.fromkeys(hosts)),
    }


def _details(session: Session) -> dict[str, str]:
    environment, plan = session.environment, session.plan
    limit = plan.memory_limit_bytes
    return {
        "why this device": environment.why,
        "not found": "; ".join(environment.not_found),
        "flags": ", ".join(f"{name}={value}" for name, value in environment.flags.items()),
        "commit": environment.commit,
        "busbw": session.busbw,
        "launches": f"{plan.launches} of each case",
        "memory limit": "" if limit is None else bytes_text(limit),
        "injected": _injected(session),
        "measuring": f"{session.measuring_s:.0f} s" if session.measuring_s else "",
        "load at the begin": "" if environment.load is None else f"{environment.load:.2g}",
        "file": PurePath(session.name).name,
    }


def _injected(session: Session) -> str:
    found = (run.injected for one in session.measurements.values() for run in one.runs)
    return ", ".join(sorted(set(filter(None, found))))


def session_sections(
    session: Session, history: Sequence[Section], since: Sequence[str]
) -> tuple[Section, ...]:
    return filled(
        Section(heading="What changed", parts=tuple(_changed(session, since))),
        Section(heading="Bandwidth", parts=tuple(_bandwidth(session))),
        Section(heading="Ratios", parts=_figures(comparison(session))),
        *history,
        Section(
            heading="Spread",
            parts=_figures(launches(session), processes(session), ranks(session)),
        ),
        Section(heading="Cases", parts=tuple(_cases(session))),
    )


def _figures(*found: Chart | None) -> tuple[Figure, ...]:
    return tuple(Figure(picture=chart) for chart in found if chart is not None)


_REPORTED = {
    Outcome.IMPROVED: "got faster",
    Outcome.OUT_OF_MEMORY: "ran out of memory as the baseline says",
    Outcome.NOISY: "too noisy to judge",
    Outcome.SKIPPED: "left out",
}


def _changed(session: Session, since: Sequence[str]) -> Iterator[Part]:
    verdicts = session.verdicts
    yield from _failed(verdicts, session.answer)
    yield from _listed("Since when:", since)
    for outcome, title in _REPORTED.items():
        found = [one for one in verdicts if one.outcome is outcome and not one.failed]
        yield from _listed(f"{plural(len(found), 'case')} {title}:", tuple(alike(found)))
    stragglers = dict.fromkeys(one.straggler.text for one in verdicts if one.straggler)
    yield from _listed("Processes that others wait for:", tuple(stragglers))
    if not any(one.failed or one.outcome in _REPORTED for one in verdicts):
        yield Text(text=_unchanged(verdicts))
    yield from _logs(verdicts)


def _listed(title: str, points: Sequence[str]) -> Iterator[Text]:
    if points:
        yield Text(text=title, points=tuple(points))


def _unchanged(verdicts: Sequence[Verdict]) -> str:
    judged = [one for one in verdicts if one.ratio is not None]
    if not judged:
        return _NOTHING_BEFORE
    worst = max(one.ratio or 0.0 for one in judged)
    return (
        f"Nothing: {plural(len(judged), 'case')} compared, the slowest "
        f"takes {ratio_text(worst)} x its baseline."
    )


_NOTHING_BEFORE = "There was nothing to compare with: no case has a baseline."


def _bandwidth(session: Session) -> Iterator[Part]:
    curves = [one for one in curves_of(session) if points(one, measured)]
    if curves and len(curves) <= MOST_CURVES:
        yield from _figures(bandwidth([session]))
    if len(curves) > _FEW:
        ordered = sorted(curves, key=lambda one: not any(c.failed for c in one.verdicts))
        for one in ordered[:MOST_CURVES]:
            yield from _figures(bandwidth([replace(session, verdicts=one.verdicts)]))
    if len(curves) > MOST_CURVES:
        left_out = len(curves) - MOST_CURVES
        yield Text(text=f"{plural(left_out, 'curve')} more: the tables of cases have them.")


def _cases(session: Session) -> Iterator[Part]:
    changed = session.environment.changed
    tables = session_tables(session.verdicts, verbose=True, changed=changed)
    yield from (Listing(table=one) for one in tables)
    yield from (Text(text=line) for line in legend(session.verdicts, verbose=True))


def _answers(found: SessionVerdict | None) -> Iterator[Answer]:
    """The session's, then those for the stack and for the machine where a reference tells."""
    if found is None:
        yield Answer(word="NO_VERDICT", text="the session's own test did not run", is_good=False)
        return
    word = ", ".join(one.value for one in found.outcomes)
    yield Answer(word=word, text=found.text, is_good=found.outcome is SessionOutcome.FINE)
    for name, one in (("The stack", found.stack), ("The machine", found.machine)):
        if one is not None:
            word = {True: "is slower.", False: "is not slower.", None: "is unknown."}[one.is_slower]
            yield Answer(word=f"{name} {word}", text=one.text, is_good=one.is_slower is False)


def _failed(verdicts: Sequence[Verdict], found: SessionVerdict | None) -> Iterator[Part]:
    failed = sum(one.failed for one in verdicts)
    if failed and found is not None:
        *lines, _ = answer_lines(verdicts, found)
        title = f"{failed} of {plural(len(verdicts), 'case')} failed:"
        yield Text(text=title, points=tuple(one.text for one in lines))


def alike(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Each reason once, with what it is about: such as ``jax all_reduce (psum) 1K to 4K: ...``."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for one in verdicts:
        name = one.case.group_name if one.case is not None else one.spec.framework
        name = f"{one.spec.topology}: {name}" if one.spec.topology else name
        sizes = reasons.setdefault((name, one.text), [])
        sizes += [one.spec.payload_bytes] if one.spec.workload.is_sized else []
    shown = list(reasons.items())[:_MOST_REASONS]
    for (name, text), sizes in shown:
        # A program's name is that of its group, and it has no size.
        yield f"{name} {span_text(sizes)}: {text}" if sizes else f"{name}: {text}"
    if len(reasons) > len(shown):
        yield f"and {len(reasons) - len(shown)} more: see the tables of cases"


def _logs(verdicts: Sequence[Verdict]) -> Iterator[Part]:
    accounts = itertools.groupby(failure_lines(verdicts), key=lambda line: not line)
    for title, *lines in (list(group) for is_break, group in accounts if not is_break):
        yield Log(title=title.removesuffix(":"), lines=tuple(lines))


def compiled_parts(session: CompiledSession) -> tuple[Part, ...]:
    topologies = dict.fromkeys(one.spec.topology for one in session.verdicts)
    facts = {
        "topologies": ", ".join(topologies),
        "compilers": ", ".join(dict.fromkeys(c.release for c in session.compilers if c.release)),
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        "host": session.host,
        "file": PurePath(session.name).name,
    }
    return (*_answers(session.answer), _facts(facts))


def compiled_sections(session: CompiledSession) -> tuple[Section, ...]:
    tables = (Listing(table=one) for one in compiled_tables(session.verdicts))
    return filled(
        Section(heading="What changed", parts=tuple(_changed_programs(session))),
        Section(heading="Memory", parts=_figures(memory(session))),
        Section(heading="Compiled cases", parts=tuple(tables)),
    )


# What needs no word: whatever has no compiler is said once for each topology.
_PLAIN = (Outcome.PASS, Outcome.NO_BASELINE, Outcome.SKIPPED)


def _changed_programs(session: CompiledSession) -> Iterator[Part]:
    verdicts = session.verdicts
    yield from _failed(verdicts, session.answer)
    others = [one for one in verdicts if not one.failed and one.outcome not in _PLAIN]
    yield from _listed("Not as before, and no failure:", tuple(alike(others)))
    _, *releases = release_lines(verdicts) or [""]
    if releases:
        yield Text(text=releases[0], points=tuple(line.strip() for line in releases[1:]))
    if not others and not any(one.failed for one in verdicts):
        compared = sum(bool(one.program and one.program.baseline) for one in verdicts)
        same = f"Nothing: {plural(compared, 'case')} compiled as the baselines say."
        yield Text(text=same if compared else _NOTHING_BEFORE)
    missing = [
        line.partition("none for ")[2]
        for line in compiler_lines(session.compilers)
        if ": none for " in line
    ]
    yield from _listed("Without a compiler:", missing)
    yield from _logs(verdicts)
