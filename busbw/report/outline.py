"""The words and tables of one session, which a summary writes as Markdown and a page as HTML."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, SessionOutcome, bytes_text, plural, ratio_text

from .answer import answer_lines, failure_lines
from .reading import CompiledSession, Session
from .session import session_tables, shape_text, versions_text
from .table import Table, span_text
from .verdicts import compiled_tables, legend, release_lines

AnySession: TypeAlias = Session | CompiledSession

# A sentence, and the points of the list below it.
Text: TypeAlias = tuple[str, Sequence[str]]

_MOST_REASONS = 12
_NOTHING_BEFORE = "There was nothing to compare with: no case has a baseline."
_REPORTED = {
    Outcome.CHANGED: "compiled differently, which is no failure",
    Outcome.IMPROVED: "got faster",
    Outcome.OUT_OF_MEMORY: "ran out of memory as the baseline says",
    Outcome.NOISY: "too noisy to judge",
    Outcome.SKIPPED: "left out",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """An outcome such as PASS with its reason; `is_good` decides its look."""

    word: str
    text: str
    is_good: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Lines as a program wrote them."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """A session in words: its outcome, where it ran, what changed, and its cases as tables."""

    title: str
    statements: tuple[Statement, ...]
    facts: Mapping[str, str]
    changes: tuple[Text, ...]
    logs: tuple[Log, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def outline(session: AnySession, since: Sequence[str] = ()) -> Outline:
    """Describe a session; `since` says since when cases fail."""
    verdicts = session.verdicts
    if isinstance(session, CompiledSession):
        facts, tables = _compiled_facts(session), compiled_tables(verdicts)
    else:
        changed = session.environment.changed
        facts = _facts(session)
        measurements = session.measurements.values()
        tables = session_tables(verdicts, measurements, verbose=True, changed=changed)
    return Outline(
        title=title(session),
        statements=tuple(_statements(session)),
        facts={name: text for name, text in facts.items() if text},
        changes=tuple(_changes(session, since)),
        logs=tuple(_logs(verdicts)),
        tables=tuple(tables),
        notes=tuple(legend(verdicts, verbose=True)),
    )


def title(session: AnySession) -> str:
    """Name a session by its collective, device and ranks."""
    if isinstance(session, CompiledSession):
        return "Collectives as they are compiled"
    key = session.environment.key
    names = {verdict.case.collective for verdict in session.verdicts if verdict.case is not None}
    collective = names.pop().replace("_", "-").capitalize() if len(names) == 1 else "Collectives"
    return f"{collective} on {key.device_kind}, {plural(key.ranks, 'rank')}"


def _statements(session: AnySession) -> Iterator[Statement]:
    """Yield the session's outcome, then those of the stack and of the machine if known."""
    answer = session.answer
    if answer is None:
        text = "the session's own test did not run"
        yield Statement(word="NO_VERDICT", text=text, is_good=False)
        return
    word = ", ".join(outcome.value for outcome in answer.outcomes)
    yield Statement(word=word, text=answer.text, is_good=answer.outcome is SessionOutcome.FINE)
    for name, part in (("The stack", answer.stack), ("The machine", answer.machine)):
        if part is not None:
            state = {True: "is slower.", False: "is not slower.", None: "is unknown."}
            word = f"{name} {state[part.is_slower]}"
            yield Statement(word=word, text=part.text, is_good=part.is_slower is False)


def _facts(session: Session) -> dict[str, str]:
    environment, key, plan = session.environment, session.environment.key, session.plan
    cores = f", {key.cores} cores" if key.cores else ""
    hosts = session.process_hosts if key.processes > 1 else (environment.host,)
    limit = plan.memory_limit_bytes
    references = {
        f"{measurement.case.framework}, reference": versions_text(run.versions)
        for measurement in session.references.values()
        for run in measurement.runs
    }
    return {
        "device": f"{key.device_kind}{cores}",
        "ranks": f"{plural(key.ranks, 'rank')}{shape_text(key)}",
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        **{name: versions_text(versions) for name, versions in environment.versions.items()},
        **references,
        "changed": environment.changed,
        "host" if len(set(hosts)) == 1 else "hosts": ", ".join(dict.fromkeys(hosts)),
        "why this device": environment.why,
        "not found": "; ".join(environment.not_found),
        "flags": ", ".join(f"{name}={value}" for name, value in environment.flags.items()),
        "commit": environment.commit,
        "busbw": session.busbw,
        "launches": f"{plan.launches} of each case",
        "memory limit": "" if limit is None else bytes_text(limit),
        "injected": _injected(session),
        "measuring": f"{session.measuring_s:.0f} s" if session.measuring_s else "",
        "load at the beginning": "" if environment.load is None else f"{environment.load:.2g}",
        "file": PurePath(session.name).name,
    }


def _compiled_facts(session: CompiledSession) -> dict[str, str]:
    topologies = dict.fromkeys(verdict.spec.topology for verdict in session.verdicts)
    releases = dict.fromkeys(compiler.release for compiler in session.compilers)
    return {
        "topologies": ", ".join(topologies),
        "compilers": ", ".join(filter(None, releases)),
        "began": f"{session.began:%Y-%m-%d %H:%M} UTC",
        "host": session.host,
        "file": PurePath(session.name).name,
    }


def _injected(session: Session) -> str:
    runs = itertools.chain(*(measured.runs for measured in session.measurements.values()))
    return ", ".join(sorted({run.injected for run in runs if run.injected}))


def _changes(session: AnySession, since: Sequence[str]) -> Iterator[Text]:
    """Yield what failed, since when, and what else is not as before."""
    verdicts = session.verdicts
    injected = _injected(session) if isinstance(session, Session) else ""
    if injected:
        yield f"injected: {injected}; the times are not real.", ()
    failed = sum(verdict.failed for verdict in verdicts)
    if failed and session.answer is not None:
        *lines, _ = answer_lines(verdicts, session.answer)
        yield f"{failed} of {plural(len(verdicts), 'case')} failed:", [line.text for line in lines]
    if since:
        yield "Since when:", since
    is_quiet = not failed
    for outcome, words in _REPORTED.items():
        cases = [
            verdict for verdict in verdicts if verdict.outcome is outcome and not verdict.failed
        ]
        is_quiet &= not cases or outcome is Outcome.SKIPPED
        if cases:
            yield f"{plural(len(cases), 'case')} {words}:", list(_reasons(cases))
    _, *releases = release_lines(verdicts) or [""]
    if releases:
        yield releases[0], [line.strip() for line in releases[1:]]
    if is_quiet:
        yield _unchanged(verdicts), ()


def _unchanged(verdicts: Sequence[Verdict]) -> str:
    ratios = [verdict.ratio for verdict in verdicts if verdict.ratio is not None]
    if ratios:
        slowest = f"the slowest takes {ratio_text(max(ratios))} x its baseline"
        return f"Nothing: {plural(len(ratios), 'case')} compared, {slowest}."
    compiled = sum(bool(verdict.program and verdict.program.baseline) for verdict in verdicts)
    same = f"Nothing: {plural(compiled, 'case')} compiled as the baselines say."
    return same if compiled else _NOTHING_BEFORE


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with its cases: such as ``jax all_reduce (psum) 1K to 4K: ...``."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for verdict in verdicts:
        name = verdict.case.group_name if verdict.case is not None else verdict.spec.framework
        topology = f"{verdict.spec.topology}: " if verdict.spec.topology else ""
        sizes = reasons.setdefault((f"{topology}{name}", verdict.text), [])
        sizes += [verdict.spec.payload_bytes] if verdict.spec.workload.is_sized else []
    for (name, text), sizes in itertools.islice(reasons.items(), _MOST_REASONS):
        # A program's name is that of its group, and it has no size.
        yield f"{name} {span_text(sizes)}: {text}" if sizes else f"{name}: {text}"
    if len(reasons) > _MOST_REASONS:
        yield f"and {len(reasons) - _MOST_REASONS} more: see the tables of cases"


def _logs(verdicts: Sequence[Verdict]) -> Iterator[Log]:
    accounts = itertools.groupby(failure_lines(verdicts), key=lambda line: not line)
    for heading, *lines in (list(group) for is_break, group in accounts if not is_break):
        yield Log(title=heading.removesuffix(":"), lines=tuple(lines))
