"""Judged → the history: what every session that measured appends, whatever its verdict.

Which file a line is in, and how it is written, is decided in `busbw.history`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from busbw import driver, history, judge, stats
from busbw.history import Line
from busbw.model import EnvironmentKey, Measurement, Outcome, Spec, StoredCase, moment_text, plural

from .session import Judged, Measured, Written


def appended(written: Written) -> Written:
    """With the session in the history, if it has one; what cannot be appended is an error."""
    judged = written.judged
    root, measured = judged.settings.history, judged.observed
    if root is None or not isinstance(measured, Measured):
        return written
    try:
        notes = _append(root, judged, measured)
    except history.HistoryError as error:
        text = f"the history was not appended to: {error}"
        return replace(written, errors=(*written.errors, text))
    return replace(written, notes=(*written.notes, *notes))


def _append(root: Path, judged: Judged, measured: Measured) -> tuple[str, ...]:
    session, worker = history.new_session(), driver.worker_hash()
    lines: dict[EnvironmentKey, list[Line]] = {}
    for spec, job in measured.resolved.jobs.items():
        its = lines.setdefault(job.key, [])
        for line in _lines(judged, measured, spec):
            its.append(replace(line, session=session, worker=worker))
    notes: list[str] = []
    for key, found in lines.items():
        path, repaired = history.append(root, key, found)
        notes += [*repaired, f"appended to the history: {plural(len(found), 'line')} of {path}"]
    return tuple(notes)


def _lines(judged: Judged, measured: Measured, spec: Spec) -> Iterator[Line]:
    """Tonight's, and that of a locked reference that was measured in turn with it."""
    line, against = _line(judged, measured, spec), measured.resolved.settings.against
    lock = against.locks.get(spec.framework) if against is not None else None
    if lock is None:
        yield line
        return
    yield replace(line, stack=lock.digest)
    found = measured.references[spec]
    yield replace(
        line,
        outcome=Outcome.NO_BASELINE,
        times_us=_times_us(found),
        failure=found.failures[0].kind if found.failures else None,
        ratio=None,
        injected="",
        injected_ratio=None,
        versions=found.runs[0].versions if found.runs else {},
        flags=lock.flags,
        stack=lock.digest,
        is_reference=True,
    )


def _line(judged: Judged, measured: Measured, spec: Spec) -> Line:
    verdict, found = judged.verdicts[spec], measured.measurements[spec]
    environment = measured.resolved.environment
    failure = found.failures[0].kind if found.failures else None
    stored = measured.resolved.jobs[spec].stored.baseline
    return Line(
        session="",
        at=moment_text(measured.resolved.collected.began),
        device=measured.resolved.machine.target.device,
        case=StoredCase.of(found.case),
        outcome=verdict.outcome,
        session_outcome=judged.session.outcome,
        session_outcomes=judged.session.outcomes,
        times_us=_times_us(found),
        failure=failure,
        ratio=verdict.ratio,
        injected=next((run.injected for run in found.runs if run.injected), ""),
        injected_ratio=judge.injected_ratio(found.runs),
        paired=measured.resolved.paired,
        baseline_date=stored.date if stored is not None else "",
        versions=found.runs[0].versions if found.runs else {},
        flags=environment.flags,
        host=platform.node(),
        commit=environment.commit,
        changed=environment.changed,
    )


def _times_us(found: Measurement) -> tuple[float, ...]:
    return tuple(_us(stats.launch_time_s(run)) for run in found.runs)


def _us(seconds: float) -> float:
    """Microseconds, six digits: no clock gives more."""
    return float(f"{1e6 * seconds:.6g}")
