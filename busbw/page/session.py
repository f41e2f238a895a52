"""What a page says of a session, measured or compiled: answer, changes, charts and tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, bytes_text, plural
from busbw.report.answer import answer_lines, failure_lines
from busbw.report.reading import CompiledSession, Session
from busbw.report.session import compiler_lines, session_tables, shape_text, versions_text
from busbw.report.table import ratio_text, span_text
from busbw.report.verdicts import compiled_tables, legend, release_lines

from .bandwidth import bandwidth, comparison
from .chart import Chart
from .content import Answer, Facts, Figure, Listing, Log, Part, Points, Section, Text
from .curves import MOST_CURVES, bare_curves, memory, steps, strategies
from .spread import launches, processes, ranks

# More curves than these have a chart each, too; what failed comes first.
_FEW = 3


def session_parts(session: Session) -> tuple[Part, ...]:
    injected = _injected(session)
    real = (Text(text=f"injected: {injected}; the times are not real."),) if injected else ()
    return (
        *real,
        *answers(session.answer),
        Facts(facts=_given(_facts(session))),
        Facts(facts=_given(_details(session)), title="The session in detail"),
    )


def _given(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in facts.items() if text}


def _facts(session: Session) -> dict[str, str]:
    environment, key = session.environment, session.environment.key
    cores = f", {key.cores} cores" if key.cores else ""
    hosts = session.process_hosts if key.processes > 1 else (environment.host,)
    return {
        "device": f"{key.device_kind}{cores}",
        "ranks": f"{plural(key.ranks, 'rank')}{shape_text(key)}",
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        **{name: versions_text(one) for name, one in environment.versions.items()},
        **_references(session),
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


def _references(session: Session) -> dict[str, str]:
    found: dict[str, str] = {}
    for measured in session.references.values():
        for run in measured.runs:
            name = f"{measured.case.framework}, reference"
            found.setdefault(name, versions_text(run.versions))
    return found


def session_sections(
    session: Session, history: Sequence[Section] = (), since: Sequence[str] = ()
) -> tuple[Section, ...]:
    return (
        Section(heading="What changed", parts=tuple(_changed(session, since))),
        Section(heading="Bandwidth", parts=tuple(_bandwidth(session))),
        Section(heading="Training", parts=tuple(_figures(steps(session), strategies(session)))),
        Section(heading="Ratios", parts=tuple(_figures(comparison(session)))),
        *history,
        Section(
            heading="Spread",
            parts=tuple(_figures(launches(session), processes(session), ranks(session))),
        ),
        Section(heading="Cases", parts=tuple(_cases(session))),
    )


def _changed(session: Session, since: Sequence[str]) -> Iterator[Part]:
    verdicts = session.verdicts
    yield from failed_cases(verdicts, session.answer)
    if since:
        yield Points(title="Since when:", points=tuple(since))
    for outcome, title in _REPORTED.items():
        found = [one for one in verdicts if one.outcome is outcome and not one.failed]
        if found:
            yield Points(
                title=f"{plural(len(found), 'case')} {title}:",
                points=tuple(alike(found)),
            )
    stragglers = dict.fromkeys(one.straggler.text for one in verdicts if one.straggler)
    if stragglers:
        yield Points(title="Processes that others wait for:", points=tuple(stragglers))
    if not any(one.failed or one.outcome in _REPORTED for one in verdicts):
        yield Text(text=_unchanged(verdicts))
    yield from logs(verdicts)


_REPORTED = {
    Outcome.IMPROVED: "got faster",
    Outcome.OUT_OF_MEMORY: "ran out of memory as the baseline says",
    Outcome.NOISY: "too noisy to judge",
    Outcome.SKIPPED: "left out",
}


def _unchanged(verdicts: Sequence[Verdict]) -> str:
    judged = [one for one in verdicts if one.ratio is not None]
    if not judged:
        return "There was nothing to compare with: no case has a baseline."
    worst = max(one.ratio or 0.0 for one in judged)
    return (
        f"Nothing: {plural(len(judged), 'case')} compared, the slowest "
        f"takes {ratio_text(worst)} x its baseline."
    )


def _figures(*found: Chart | None) -> Iterator[Figure]:
    return (Figure(picture=chart) for chart in found if chart is not None)


def _bandwidth(session: Session) -> Iterator[Part]:
    curves = [one for one in bare_curves(session) if any(c.measured for c in one.cells)]
    if not curves:
        return
    if len(curves) <= MOST_CURVES:
        yield from _figures(bandwidth([session]))
    if len(curves) > _FEW:
        ordered = sorted(curves, key=lambda one: not any(c.verdict.failed for c in one.cells))
        for one in ordered[:MOST_CURVES]:
            alone = replace(session, verdicts=tuple(cell.verdict for cell in one.cells))
            yield from _figures(bandwidth([alone]))
    if len(curves) > MOST_CURVES:
        left_out = len(curves) - MOST_CURVES
        yield Text(text=f"{plural(left_out, 'curve')} more: the tables of cases have them.")


def _cases(session: Session) -> Iterator[Part]:
    changed = session.environment.changed
    tables = session_tables(session.verdicts, session.measurements, verbose=True, changed=changed)
    yield from (Listing(table=one) for one in tables)
    yield from (Text(text=line) for line in legend(session.verdicts, verbose=True))


_NO_VERDICT = "NO_VERDICT"
_MOST_REASONS = 12


def answers(found: SessionVerdict | None) -> list[Part]:
    """The session's, then those for the stack and for the machine where a reference tells."""
    if found is None:
        return [Answer(word=_NO_VERDICT, text="the session's own test did not run", is_good=False)]
    word = ", ".join(one.value for one in found.outcomes)
    parts: list[Part] = [Answer(word=word, text=found.text, is_good=not found.failed)]
    for name, one in (("The stack", found.stack), ("The machine", found.machine)):
        if one is not None:
            word = {True: "is slower.", False: "is not slower.", None: "is unknown."}[one.is_slower]
            good = one.is_slower is False
            parts.append(Answer(word=f"{name} {word}", text=one.text, is_good=good))
    return parts


def failed_cases(verdicts: Sequence[Verdict], found: SessionVerdict | None) -> Iterator[Part]:
    failed = sum(one.failed for one in verdicts)
    if failed and found is not None:
        *lines, _ = answer_lines(verdicts, found)
        yield Points(
            title=f"{failed} of {plural(len(verdicts), 'case')} failed:",
            points=tuple(one.text for one in lines),
        )


def alike(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Each reason once, with what it is about: such as ``jax all_reduce (psum) 1K to 4K: ...``."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for one in verdicts:
        name = one.case.group_name if one.case is not None else one.spec.framework
        name = f"{one.spec.topology}: {name}" if one.spec.topology else name
        reasons.setdefault((name, one.text), []).append(one.spec.payload_bytes)
    shown = list(reasons.items())[:_MOST_REASONS]
    for (name, text), sizes in shown:
        yield f"{name} {span_text(sizes)}: {text}"
    if len(reasons) > len(shown):
        yield f"and {len(reasons) - len(shown)} more: see the tables of cases"


def logs(verdicts: Sequence[Verdict]) -> Iterator[Part]:
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
    return (*answers(session.answer), Facts(facts=_given(facts)))


def compiled_sections(session: CompiledSession) -> tuple[Section, ...]:
    tables = (Listing(table=one) for one in compiled_tables(session.verdicts))
    return (
        Section(heading="What changed", parts=tuple(_changed_programs(session))),
        Section(heading="Memory", parts=tuple(_figures(memory(session)))),
        Section(heading="Compiled cases", parts=tuple(tables)),
    )


# What needs no word: whatever has no compiler is said once for each topology.
_PLAIN = (Outcome.PASS, Outcome.NO_BASELINE, Outcome.SKIPPED)


def _changed_programs(session: CompiledSession) -> Iterator[Part]:
    yield from failed_cases(session.verdicts, session.answer)
    others = [one for one in session.verdicts if not one.failed and one.outcome not in _PLAIN]
    if others:
        yield Points(title="Not as before, and no failure:", points=tuple(alike(others)))
    _, *releases = release_lines(session.verdicts) or [""]
    if releases:
        title, *lines_of = releases
        yield Points(title=title, points=tuple(line.strip() for line in lines_of))
    if not others and not any(one.failed for one in session.verdicts):
        yield Text(text=_unchanged_programs(session))
    missing = [one for one in compiler_lines(session.compilers) if ": none for " in one]
    if missing:
        yield Points(
            title="Without a compiler:",
            points=tuple(one.partition("none for ")[2] for one in missing),
        )
    yield from logs(session.verdicts)


def _unchanged_programs(session: CompiledSession) -> str:
    compared = sum(bool(one.program and one.program.baseline) for one in session.verdicts)
    if not compared:
        return "There was nothing to compare with: no case has a baseline."
    return f"Nothing: {plural(compared, 'case')} compiled as the baselines say."
