"""What a person asks to be done to stored baselines beside an update: prune, rebase.

Never done unasked; measures nothing and takes no time from a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from busbw.model import Case, EnvironmentKey

from .changes import Change, recorded
from .document import Document, Entry
from .draft import Draft
from .entries import Occasion, baseline_of, case_of, rounded_us
from .pool import level_us, pinned_on

Keyed = tuple[EnvironmentKey, Case]


def prune(
    draft: Draft[Document], keep: Sequence[Keyed], *, occasion: Occasion
) -> tuple[Change, ...]:
    """Remove, from the files of the cases in `keep`, every entry of another case; what went.

    A file in which nothing is left is removed. Raises BaselineError if a file cannot be read.
    """
    kept = [_pruned(path, document, cases) for path, document, cases in _there(draft, keep)]
    for path, document, gone in kept:
        if gone:
            draft.put(path, recorded(document, gone, occasion))
    return tuple(change for _, _, gone in kept for change in gone)


def _pruned(
    path: Path, document: Document, cases: Sequence[Case]
) -> tuple[Path, Document, list[Change]]:
    places = {case.key.entry for case in cases}
    gone = [entry for entry in document.entries if entry.place not in places]
    changes = [_removed(path, document, entry) for entry in sorted(gone, key=lambda e: e.place)]
    left = tuple(entry for entry in document.entries if entry.place in places)
    return path, replace(document, entries=left), changes


def _removed(path: Path, document: Document, entry: Entry) -> Change:
    case = case_of(document, entry, entry.protocol, path.name)
    return Change(path=path, case=case, before=baseline_of(case, entry), after=None)


def rebase(
    draft: Draft[Document], cases: Sequence[Keyed], *, occasion: Occasion
) -> tuple[Change, ...]:
    """Move the pins of these cases to the levels that are stored now; what moved.

    An entry of another protocol stays, and so does one that is out of memory. Raises
    BaselineError if a file cannot be read.
    """
    changes: list[Change] = []
    for path, document, here in _there(draft, cases):
        after, moved = _rebased(path, document, here, occasion)
        if moved:
            draft.put(path, recorded(after, moved, occasion))
        changes += moved
    return tuple(changes)


def _rebased(
    path: Path, document: Document, cases: Sequence[Case], occasion: Occasion
) -> tuple[Document, list[Change]]:
    wanted = {(case.key.entry, case.protocol) for case in cases}
    entries = tuple(
        _at_level(entry, occasion) if (entry.place, entry.protocol) in wanted else entry
        for entry in document.entries
    )
    moved = []
    for before, after in zip(document.entries, entries):
        if before != after:
            case = case_of(document, before, before.protocol)
            moved.append(
                Change(
                    path=path,
                    case=case,
                    before=baseline_of(case, before),
                    after=baseline_of(case, after),
                )
            )
    return replace(document, entries=entries), moved


def _at_level(entry: Entry, occasion: Occasion) -> Entry:
    level = level_us(entry)
    if level is None or rounded_us(level) == entry.pinned_us:
        return entry
    return pinned_on(entry, occasion.date)


def _there(
    draft: Draft[Document], cases: Sequence[Keyed]
) -> list[tuple[Path, Document, list[Case]]]:
    """The files that there are of these cases, each read, and the cases that stand in it."""
    found: dict[Path, tuple[Path, Document, list[Case]]] = {}
    for key, case in cases:
        path, document = draft.find(key, case)
        if document is not None:
            found.setdefault(path, (path, document, []))[2].append(case)
    return list(found.values())
