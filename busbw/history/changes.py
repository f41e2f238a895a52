"""What the history of a machine says in words: its sessions, and what changed when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from busbw.model.words import cut_short, plural

from .levels import MachineHistory
from .lines import wrong_text

_MOST_CHANGES = 24


def change_texts(machine: MachineHistory) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield sentences, each with the points of the list below it."""
    first, last = machine.lines[0].began, machine.lines[-1].began
    counts = ", ".join(f"{n} {outcome}" for outcome, n in Counter(machine.outcomes).most_common())
    span = f"{plural(len(machine.sessions), 'session')} from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    yield f"{machine.folder}: {span}: {counts}.", ()
    named = [(f"all cases of {series.text}", changes) for series, changes in machine.shared.items()]
    named += [(case.case.name, case.changes) for case in machine.cases]
    levels = [(part.began, f"{name}: {part.sentence}") for name, parts in named for part in parts]
    points = [text for _, text in sorted(levels, reverse=True)]
    heading = "Levels that changed, newest first:" if levels else "No level of a case changed."
    yield heading, cut_short(points, _MOST_CHANGES, "change")
    wrong_cases = [(case.case.name, wrong_text(case.sessions.values())) for case in machine.cases]
    mismatches = [f"{name}: {text}" for name, text in wrong_cases if text]
    if mismatches:
        yield "Wrong values:", mismatches
