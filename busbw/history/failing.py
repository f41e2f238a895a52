"""Since when a case fails without a break, and what changed in the stack at that time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from busbw.model.case import Case
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome, cut_short, plural

from .levels import MachineHistory
from .lines import Line, Series, earlier

_MOST_NAMED = 4


def measured_outcome(line: Line) -> Outcome | None:
    """Return the outcome of a case in one session, None where it was not measured.

    The lines of a reference have no outcome of their own but say what failed.
    """
    if line.times_us or line.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY):
        return line.outcome
    if line.failure in (None, FailureKind.OTHER_DTYPE):
        return None
    is_memory = line.failure is FailureKind.OUT_OF_MEMORY
    return Outcome.OUT_OF_MEMORY if is_memory else Outcome.FAILED


def failing_texts(lines: Sequence[Line], failed: Mapping[Case, Outcome]) -> Iterator[str]:
    """Yield a line for the cases that fail since the same session, from the lines of a machine."""
    cases: dict[str, list[str]] = {}
    for case, outcome in failed.items():
        text = _failing_text(case, outcome, lines)
        cases.setdefault(text, []).append(case.name)
    cases.pop("", None)
    for text, names in cases.items():
        yield f"{', '.join(cut_short(names, _MOST_NAMED, 'case'))}: {text}"


def _failing_text(case: Case, outcome: Outcome, lines: Sequence[Line]) -> str:
    """Return since when a case has had `outcome`, and what changed in the stack at that time.

    The text is empty where the newest session has another outcome.
    """
    of_case = [line for line in lines if line.case == case and not line.is_reference]
    # A session that was slowed down on purpose tells nothing about earlier sessions.
    if not of_case or not of_case[-1].is_ordinary:
        return ""
    series = Series.of_line(of_case[-1])
    sessions = [
        line
        for line in of_case
        if line.is_ordinary and Series.of_line(line) == series and measured_outcome(line)
    ]
    alike = list(
        itertools.takewhile(lambda line: measured_outcome(line) is outcome, reversed(sessions))
    )
    count = plural(len(alike), "session")
    if not alike:
        return ""
    if len(alike) == len(sessions):
        return f"{outcome.value} in each of its {count}"
    first, before = alike[-1].began, sessions[-len(alike) - 1].began
    between = [session for session in earlier(lines, series) if before <= session.began <= first]
    changes = between[-1].changes_since(between[0], series.framework) if between else ()
    changed = ", ".join(changes) or "nothing that is known"
    return f"{outcome.value} since {first:%Y-%m-%d} ({count}); changed there: {changed}"


def failed_since(verdicts: Iterable[Verdict], machines: Iterable[MachineHistory]) -> list[str]:
    """Return since when the cases that failed fail, by the histories of their machines."""
    failed = {
        verdict.case: verdict.outcome
        for verdict in verdicts
        if verdict.failed and verdict.case is not None
    }
    return [text for machine in machines for text in failing_texts(machine.lines, failed)]
