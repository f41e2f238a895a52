"""What a page says of a session that measured: its answer, what changed, its charts, its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from busbw.model import Outcome, Verdict, bytes_text, plural

from .. import charts
from ..chart import Chart
from ..picture import table_of
from ..reading import Session
from ..session import session_tables, versions_text
from ..table import ratio_text
from ..verdicts import legend
from .answers import alike, answers, failed_cases, logs
from .content import Facts, Figure, Listing, Part, Points, Section, Text

# What a page has of charts of single curves; what failed comes first.
_MOST_SINGLE = 12
_MOST_TOGETHER = 12
_FEW = 3


def session_parts(session: Session) -> tuple[Part, ...]:
    """The answer, for the stack and the machine apart where a reference tells, and the facts."""
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
    where = plural(key.ranks, "rank")
    where += f" in a {key.mesh} mesh" if key.mesh else ""
    if (key.hosts, key.processes) != (1, 1):
        where += f", {plural(key.hosts, 'host')}, {plural(key.processes, 'process')}"
    cores = f", {key.cores} cores" if key.cores else ""
    hosts = session.process_hosts if key.processes > 1 else (environment.host,)
    return {
        "device": f"{key.device_kind}{cores}",
        "ranks": where,
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
    """The versions of the other stack, by framework."""
    found: dict[str, str] = {}
    for measured in session.references.values():
        for run in measured.runs:
            name = f"{measured.case.framework}, reference"
            found.setdefault(name, versions_text(run.versions))
    return found


def session_sections(session: Session, history: Sequence[Section] = ()) -> tuple[Section, ...]:
    """All that a page shows of the session, in the order in which it is read, with its history."""
    return (
        Section(heading="What changed", parts=tuple(_changed(session))),
        Section(heading="Bandwidth", parts=tuple(_bandwidth(session))),
        Section(heading="Training", parts=tuple(_training(session))),
        Section(heading="Ratios", parts=tuple(_figures([charts.comparison(session)]))),
        *history,
        Section(heading="Spread", parts=tuple(_spread(session))),
        Section(heading="Cases", parts=tuple(_cases(session))),
    )


def _changed(session: Session) -> Iterator[Part]:
    verdicts = session.verdicts
    yield from failed_cases(verdicts, session.answer)
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


def _figures(found: Sequence[Chart | None]) -> Iterator[Figure]:
    for chart in found:
        if chart is not None:
            yield Figure(picture=chart, table=table_of(chart))


def _bandwidth(session: Session) -> Iterator[Part]:
    """All curves together, and where these are several, each with its baseline and band."""
    curves = [one for one in charts.bare_curves(session) if any(c.measured for c in one.cells)]
    if not curves:
        return
    if len(curves) <= _MOST_TOGETHER:
        yield from _figures([charts.bandwidth([session])])
    if len(curves) > _FEW or len(curves) > _MOST_TOGETHER:
        ordered = sorted(curves, key=lambda one: not any(c.verdict.failed for c in one.cells))
        for one in ordered[:_MOST_SINGLE]:
            alone = replace(session, verdicts=tuple(cell.verdict for cell in one.cells))
            yield from _figures([charts.bandwidth([alone])])
        if len(curves) > _MOST_SINGLE:
            left_out = len(curves) - _MOST_SINGLE
            yield Text(text=f"{plural(left_out, 'curve')} more: the tables of cases have them.")


def _training(session: Session) -> Iterator[Part]:
    yield from _figures([charts.steps(session)])
    chart = charts.strategies(session)
    if chart is not None:
        yield Figure(picture=chart, table=charts.launch_table(session))


def _spread(session: Session) -> Iterator[Part]:
    launches = charts.launches(session)
    if launches is not None:
        yield Figure(picture=launches, table=charts.launch_table(session))
    members: tuple[Callable[[Session], Chart | None], ...] = (charts.processes, charts.ranks)
    for chart in (one(session) for one in members):
        if chart is not None:
            yield Figure(picture=chart, table=charts.member_table(chart))


def _cases(session: Session) -> Iterator[Part]:
    changed = session.environment.changed
    tables = session_tables(session.verdicts, session.measurements, verbose=True, changed=changed)
    yield from (Listing(table=one) for one in tables)
    yield from (Text(text=line) for line in legend(session.verdicts))
