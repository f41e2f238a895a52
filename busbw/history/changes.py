"""What the history of a machine says in words: its sessions, and what changed when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from busbw.model.words import plural

from .failing import names_text
from .levels import LevelChange, MachineHistory
from .lines import wrong_text

_MOST_CHANGES = 24


def change_texts(machine: MachineHistory) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield sentences, each with the points of the list below it."""
    first, last = machine.lines[0].began, machine.lines[-1].began
    counts = ", ".join(f"{n} {outcome}" for outcome, n in Counter(machine.outcomes).most_common())
    span = f"{plural(len(machine.sessions), 'session')} from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    yield f"{machine.folder}: {span}: {counts}.", ()
    for series, changes in machine.shared.items():
        if changes:
            sentences = [change.sentence for change in reversed(changes)]
            yield f"All cases of {series.text} together:", sentences
    wrong_cases = [(case.case.name, wrong_text(case.sessions.values())) for case in machine.cases]
    points = [f"{name}: {text}" for name, text in wrong_cases if text]
    if points:
        yield "Wrong values:", points
    levels = list(_level_changes(machine))
    more = len(levels) - _MOST_CHANGES
    left_out = [f"and {plural(more, 'change')} earlier"] if more > 0 else []
    heading = "Levels that changed, newest first:" if levels else "No level of a case changed."
    yield heading, [*levels[:_MOST_CHANGES], *left_out]


def _level_changes(machine: MachineHistory) -> Iterator[str]:
    """Yield a line for each day and cause, newest first."""
    causes: dict[tuple[date, str], list[tuple[LevelChange, str]]] = {}
    for case in machine.cases:
        for change in case.changes:
            cases = causes.setdefault((change.began.date(), change.cause), [])
            cases.append((change, case.case.name))
    for (day, cause), cases in sorted(causes.items(), reverse=True):
        changes = sorted((change for change, _ in cases), key=lambda change: change.log_ratio)
        ends = (changes[0].text, changes[-1].text)
        sizes = dict.fromkeys(text.partition(" since ")[0] for text in ends)
        names = names_text([name for _, name in cases])
        yield f"since {day}: {names}: {' to '.join(sizes)}; {cause}"
