"""Find a case's baseline; save a session's accepted ones, merged with what is stored.

Knows files and the layout; whether something deserves to be saved is decided elsewhere, and how
much a baseline may lose in `pool`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model import Baseline, Case, CaseKey, EnvironmentKey

from . import files
from .changes import Change, Refusal, Saved, recorded
from .document import Document, Entry
from .draft import Draft
from .entries import Accepted, Occasion, baseline_of, entry_of
from .key import folder_of
from .pool import joined
from .timed import TIMED


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBaseline:
    """The answer to a search: a baseline, or none and the nearest key that has one.

    `other_strategy` is one that the same case has a baseline with, where it has none of its own.
    """

    baseline: Baseline | None = None
    nearest: str = ""
    other_strategy: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What a save may do: an entry may lose `budget`, a fraction, against its pinned level.

    `accept_regression` writes also what loses more, and pins it. `only_new` leaves existing
    entries alone.
    """

    budget: float
    accept_regression: bool = False
    only_new: bool = False


def find(
    root: Path, key: EnvironmentKey, case: Case, *, memory_limit_bytes: int | None = None
) -> FoundBaseline:
    """What is stored below `root` for `case` on `key`. Raises BaselineError for a bad file.

    Under an artificial memory limit that is what ran out of memory under the same one, or else
    what is stored without any; never what is stored under another limit.
    """
    path = files.path_of(root, key, case)
    there, entry = files.there(path), None
    if there:
        document = files.read_checked(TIMED, path, key, case)
        entry = _entry(document, case, memory_limit_bytes) or _entry(document, case)
    if entry is not None:
        return FoundBaseline(baseline=baseline_of(case, entry))
    nearest = "" if there else _nearest(root, key, case)
    return FoundBaseline(nearest=nearest, other_strategy=_other_strategy(root, key, case))


def frameworks_at(root: Path, key: EnvironmentKey) -> frozenset[str]:
    """The frameworks that have baselines on `key`."""
    return _frameworks((root / folder_of(key)).glob("*.*.*.json"))


def frameworks_below(root: Path) -> frozenset[str]:
    """The frameworks that have baselines on any key below `root`."""
    return _frameworks(root.glob("*/*/*.*.*.json"))


def _frameworks(paths: Iterable[Path]) -> frozenset[str]:
    named = (CaseKey.of_file(path.name) for path in paths)
    return frozenset(one.framework for one in named if one is not None)


def _other_strategy(root: Path, key: EnvironmentKey, case: Case) -> str:
    """A strategy other than the case's that there is an entry of, on the same key."""
    folder = root / folder_of(key)
    stem = case.key.stem
    for path in sorted(folder.glob(f"{stem}.*.json")):
        strategy = path.name.removesuffix(".json").removeprefix(f"{stem}.")
        other = replace(case, strategy=strategy)
        if strategy != case.strategy and _entry(files.read_checked(TIMED, path, key, other), other):
            return strategy
    return ""


def _entry(document: Document, case: Case, memory_limit_bytes: int | None = None) -> Entry | None:
    wanted = (case.key.entry, memory_limit_bytes)
    found = (e for e in document.entries if (e.place, e.memory_limit_bytes) == wanted)
    return next(found, None)


def _nearest(root: Path, key: EnvironmentKey, case: Case) -> str:
    """Which other key has a file for this framework, collective and strategy, if any."""
    wanted = folder_of(key)
    there = [
        path.parent.relative_to(root) for path in sorted(root.glob(f"*/*/{case.key.file_name}"))
    ]
    if not there:
        return ""
    best = max(there, key=lambda f: (f.parts[0] == wanted.parts[0], f.parts[1] == wanted.parts[1]))
    return f"no baseline for {wanted}, the nearest is for {best.as_posix()}"


def save(
    draft: Draft[Document], accepted: Sequence[Accepted], *, occasion: Occasion, rules: Rules
) -> Saved:
    """Put what was accepted into `draft`, each file with a line of history.

    Only the given entries are replaced. What `rules` forbid is not put there, and comes back as a
    refusal. Raises BaselineError if a file cannot be read.
    """
    changes: list[Change] = []
    refusals: list[Refusal] = []
    documents: dict[Path, Document] = {}
    for one in accepted:
        path, document = draft.opened(one.key, one.measurement.case)
        documents[path], done = _merged(documents.get(path, document), one, path, occasion, rules)
        changes += [done] if isinstance(done, Change) else []
        refusals += [done] if isinstance(done, Refusal) else []
    for path in dict.fromkeys(change.path for change in changes):
        own = [change for change in changes if change.path == path]
        draft.put(path, recorded(documents[path], own, occasion))
    return Saved(changes=tuple(changes), refusals=tuple(refusals))


def _merged(
    document: Document, one: Accepted, path: Path, occasion: Occasion, rules: Rules
) -> tuple[Document, Change | Refusal | None]:
    """`document` with one case's session, and what that did; None: it was left alone."""
    case = one.measurement.case
    new = entry_of(one, occasion)
    old = _entry(document, case, new.memory_limit_bytes)
    if rules.only_new and old is not None:
        return document, None
    step = joined(old, new, append=one.append, budget=rules.budget)
    before = baseline_of(case, old) if old else None
    after = baseline_of(case, step.entry)
    if step.lost and not rules.accept_regression:
        assert before is not None
        return document, Refusal(
            path=path, case=case, stored=before, wanted=after, budget=rules.budget
        )
    others = tuple(entry for entry in document.entries if not _replaced(entry, step.entry, one))
    change = Change(path=path, case=case, before=before, after=after, lost=step.lost)
    return replace(document, entries=(*others, step.entry)), change


def _replaced(entry: Entry, new: Entry, one: Accepted) -> bool:
    """Whether `entry` goes when `new` comes: the same one, and that under the session's limit.

    What fits under an artificial limit is no longer out of memory under it.
    """
    limits = {new.memory_limit_bytes} | ({one.memory_limit_bytes} if one.times_s else set())
    return entry.place == new.place and entry.memory_limit_bytes in limits
