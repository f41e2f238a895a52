"""Texts about the history of a machine: since when a case fails, and which levels changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from busbw.model.case import Case
from busbw.model.verdict import Verdict
from busbw.model.words import FailureKind, Outcome, plural, shorten_list

from .files import HistoryLine, SeriesKey, comparable_sessions
from .levels import MachineHistory

# A list of more changes would be hard to read, so that the rest is only counted.
_MAX_CHANGES = 24

# A text names at most this many cases, and only counts further cases.
_MAX_NAMED_CASES = 4


# The outcome of a measurement without times, by its kind of failure; other kinds are FAILED.
_OUTCOME_BY_FAILURE = {
    None: None,
    FailureKind.OTHER_DTYPE: None,
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
}


def measured_outcome(line: HistoryLine) -> Outcome | None:
    """Return the outcome of the measurement in a line of the history; None if nothing was measured.

    If the line has times, or is FAILED or OUT_OF_MEMORY, the result is the outcome of the line. Any
    other line has no times, and its kind of failure decides: OUT_OF_MEMORY if memory ran out, None
    if the compiler replaced the dtype or if there is no failure, else FAILED. The lines of
    reference stacks need this rule: they are not judged, and say NO_BASELINE even after a failure.
    """
    if line.times_us or line.outcome in (Outcome.FAILED, Outcome.OUT_OF_MEMORY):
        return line.outcome
    return _OUTCOME_BY_FAILURE.get(line.failure, Outcome.FAILED)


def failing_since_texts(lines: Sequence[HistoryLine], verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield texts that say since when the failed cases of the newest session fail in this way.

    A text also names the changes of the stack with which the failures began. Cases with the same
    text share a line. A case has no text if the newest line of the case has another outcome than
    its verdict, or cannot be compared.

    Args:
        lines: The lines of a machine, oldest first.
        verdicts: The verdicts of the newest session.

    """
    cases: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.failed and verdict.case is not None:
            text = _failing_since_text(verdict.case, verdict.outcome, lines)
            cases.setdefault(text, []).append(verdict.case.name)
    cases.pop("", None)
    for text, names in cases.items():
        yield f"{', '.join(shorten_list(names, _MAX_NAMED_CASES, 'case'))}: {text}"


def _failing_since_text(case: Case, outcome: Outcome, lines: Sequence[HistoryLine]) -> str:
    """Return a text on since when `case` has had `outcome`, and on what changed at that time.

    The text has the day of the first session with `outcome`, and the changes of the stack between
    the session before and this first session. If the case had `outcome` in all comparable sessions,
    the text has only the number of sessions. The text is empty in two cases: the newest session
    that measured the case had another outcome, or the times of the newest line of the case in
    `lines` cannot be compared with those of other sessions.
    """
    of_case = [line for line in lines if line.case == case and not line.is_reference]
    # A session that was slowed down on purpose tells nothing about earlier sessions.
    if not of_case or not of_case[-1].is_comparable:
        return ""
    series = SeriesKey.of_line(of_case[-1])
    sessions = [
        line
        for line in of_case
        if line.is_comparable and SeriesKey.of_line(line) == series and measured_outcome(line)
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
    between = [
        session
        for session in comparable_sessions(lines, series)
        if before <= session.began <= first
    ]
    changes = between[-1].setup_changes_since(between[0], series.framework) if between else ()
    changed = ", ".join(changes) or "nothing that is known"
    return f"{outcome.value} since {first:%Y-%m-%d} ({count}); changed there: {changed}"


def history_paragraphs(machine: MachineHistory) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield paragraphs about the history of a machine: headings, each with a list below it.

    The first heading counts the outcomes of sessions, and its list is empty. The list of the second
    heading has the changes of levels, newest first; empty without a change.
    """
    first, last = machine.lines[0].began, machine.lines[-1].began
    counts = ", ".join(f"{n} {outcome}" for outcome, n in machine.outcome_counts.most_common())
    span = f"{plural(len(machine.first_lines), 'session')} from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    yield f"{machine.folder}: {span}: {counts}.", ()
    named = [
        (f"all cases of {series.text}", changes)
        for series, changes in machine.shared_changes.items()
    ]
    named += [(case.case.name, case.changes) for case in machine.cases]
    levels = [(part.began, f"{name}: {part.sentence}") for name, parts in named for part in parts]
    points = [text for _, text in sorted(levels, reverse=True)]
    heading = "Levels that changed, newest first:" if levels else "No level of a case changed."
    yield heading, shorten_list(points, _MAX_CHANGES, "change")
