"""Since when a case fails without a break, and what changed in the stack at that time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from busbw.model.case import Case
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome, cut_short, plural

from .levels import MachineHistory
from .lines import Line, Series, earlier

# The changes of a stack, each with the session that began then.
StackChanges = Sequence[tuple[datetime, tuple[str, ...]]]

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


def failing_text(outcome: Outcome | None, sessions: Sequence[Line], changes: StackChanges) -> str:
    """Return since when a case has had `outcome`, and what changed at that time.

    `sessions` are the sessions that measured the case, oldest first. The text is empty where the
    newest session has another outcome.
    """
    alike = list(itertools.takewhile(lambda line: line.outcome is outcome, reversed(sessions)))
    if not alike or outcome is None:
        return ""
    count = plural(len(alike), "session")
    if len(alike) == len(sessions):
        return f"{outcome.value} in each of its {count}"
    first, before = alike[-1].began, sessions[-len(alike) - 1].began
    texts = itertools.chain(*(texts for began, texts in changes if before < began <= first))
    changed = ", ".join(texts) or "nothing that is known"
    return f"{outcome.value} since {first:%Y-%m-%d} ({count}); changed there: {changed}"


def failing_texts(lines: Sequence[Line], failed: Mapping[Case, Outcome]) -> Iterator[str]:
    """Yield a line for the cases that fail since the same session, from the lines of a machine."""
    texts: dict[str, list[str]] = {}
    for case, outcome in failed.items():
        of_case = [line for line in lines if line.case == case and not line.is_reference]
        # A session that was slowed down on purpose tells nothing about earlier sessions.
        if not of_case or not of_case[-1].is_ordinary:
            continue
        series = Series.of_line(of_case[-1])
        comparable = [
            line for line in of_case if line.is_ordinary and Series.of_line(line) == series
        ]
        sessions = [
            replace(line, outcome=measured)
            for line in comparable
            if (measured := measured_outcome(line))
        ]
        text = failing_text(outcome, sessions, stack_changes(lines, series))
        if text:
            texts.setdefault(text, []).append(case.name)
    yield from (f"{names_text(names)}: {text}" for text, names in texts.items())


def failed_since(verdicts: Iterable[Verdict], machines: Iterable[MachineHistory]) -> list[str]:
    """Return since when the cases that failed fail, by the histories of their machines."""
    failed = {
        verdict.case: verdict.outcome
        for verdict in verdicts
        if verdict.failed and verdict.case is not None
    }
    return [text for machine in machines for text in failing_texts(machine.lines, failed)]


def stack_changes(lines: Sequence[Line], series: Series) -> StackChanges:
    """Return what changed from each session of a series to the next, however soon that began."""
    sessions = sorted(earlier(lines, series), key=lambda session: session.began)
    return [
        (after.began, after.changes_since(before, series.framework))
        for before, after in pairwise(sessions)
    ]


def names_text(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(cut_short(names, _MOST_NAMED, "case"))
