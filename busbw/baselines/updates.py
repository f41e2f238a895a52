"""Updates of stored times: save, prune and rebase, each with the Changes that it made.

All changes go into a draft, each file with a line of history, and nothing is written here; a
Refusal words itself. What may be saved is decided elsewhere, and how much a baseline may lose in
`entries`. Pruning and rebasing are done only on request, and measure nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from busbw.baselines.timed import (
    Accepted,
    Occasion,
    baseline_of,
    entry_of,
    joined,
    level_us,
    pinned_at_level,
    rounded_us,
)
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import Baseline, CompiledBaseline
from busbw.model.words import seconds_text

from .document import case_of
from .files import Draft
from .timed import Document, Entry, Update

S = TypeVar("S", Baseline, CompiledBaseline)

# A year of weekly updates; more is what version control is for.
MOST_UPDATES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Change(Generic[S]):
    """One baseline, of times or of a program, before and after; None: none, or it was removed.

    `lost`: it lost more than the budget, and somebody accepted that with a reason. `why` says in a
    word or two why it was written.
    """

    path: Path
    case: Case
    before: S | None
    after: S | None
    lost: bool = False
    why: str = ""


Updated = Change[Baseline]


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A baseline that was not written: `wanted` lies beyond what `stored` may lose.

    `why` says why today's times were to be stored.
    """

    path: Path
    case: Case
    stored: Baseline
    wanted: Baseline
    budget: float
    why: str = ""

    @property
    def text(self) -> str:
        return f"{self.case.name}: the baseline was not written: {self._loss}"

    @property
    def _loss(self) -> str:
        pinned_s, level_s = self.stored.pinned_s, self.wanted.level_s
        assert pinned_s is not None
        pin = f"{seconds_text(pinned_s)} pinned on {self.stored.pinned_date}"
        if level_s is None:
            return f"it is out of memory where there was a time, {pin}"
        ratio = level_s / pinned_s
        loss = f"{100 * (ratio - 1):.1f} % above" if ratio < 2 else f"{ratio:.3g} x"
        return (
            f"its level would be {seconds_text(level_s)}, {loss} the {pin}; "
            f"the budget is {100 * self.budget:g} %"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What was saved of a session's times, and what was refused."""

    changes: tuple[Updated, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What a save may do: an entry may lose `budget`, a fraction, against its pinned level.

    What was accepted although it loses more is written, and pinned. `only_new` keeps existing
    entries as they are.
    """

    budget: float
    only_new: bool = False


def save(
    draft: Draft[Document], accepted: Sequence[Accepted], *, occasion: Occasion, rules: Rules
) -> Saved:
    """Put what was accepted into `draft`, each file with a line of history.

    Only the given entries are replaced. What `rules` forbid is not saved but returned as a refusal.
    Raises BaselineError if a file cannot be read.
    """
    changes: list[Updated] = []
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
) -> tuple[Document, Updated | Refusal | None]:
    """`document` with one case's session, and the change or refusal; None: it was left as it is."""
    case = one.measurement.case
    new = entry_of(one, occasion)
    old = document.entry(case, new.memory_limit_bytes)
    if rules.only_new and old is not None:
        return document, None
    step = joined(old, new, append=one.append, budget=rules.budget)
    before = baseline_of(case, old) if old else None
    after = baseline_of(case, step.entry)
    if step.lost and not one.takes_loss:
        assert before is not None
        return document, Refusal(
            path=path, case=case, stored=before, wanted=after, budget=rules.budget, why=one.why
        )
    others = tuple(entry for entry in document.entries if not _replaced(entry, step.entry, one))
    change = Change(path=path, case=case, before=before, after=after, lost=step.lost, why=one.why)
    return replace(document, entries=(*others, step.entry)), change


def _replaced(entry: Entry, new: Entry, one: Accepted) -> bool:
    """Whether `new` replaces `entry`: the same line, or that under the session's memory limit.

    What fits under an artificial limit is no longer out of memory under it.
    """
    limits = {new.memory_limit_bytes} | ({one.memory_limit_bytes} if one.times_s else set())
    return entry.line_key == new.line_key and entry.memory_limit_bytes in limits


Keyed = tuple[EnvironmentKey, Case]


def prune(
    draft: Draft[Document], keep: Sequence[Keyed], *, occasion: Occasion
) -> tuple[Updated, ...]:
    """Remove every entry of another case from the files of the cases in `keep`.

    Returns what was removed. A file without entries is removed. Raises BaselineError if a file
    cannot be read.
    """
    return _revised(draft, keep, occasion, _kept)


def _kept(entry: Entry, cases: Sequence[Case], occasion: Occasion) -> Entry | None:
    return entry if any(case.key.line_key == entry.line_key for case in cases) else None


def rebase(
    draft: Draft[Document], cases: Sequence[Keyed], *, occasion: Occasion
) -> tuple[Updated, ...]:
    """Pin these cases at the levels that are stored now; returns what changed.

    An entry of another protocol stays as it is, and so does one that is out of memory. Raises
    BaselineError if a file cannot be read.
    """
    return _revised(draft, cases, occasion, _at_level)


def _at_level(entry: Entry, cases: Sequence[Case], occasion: Occasion) -> Entry:
    own = (entry.line_key, entry.protocol)
    level = level_us(entry)
    if level is None or rounded_us(level) == entry.pinned_us:
        return entry
    wanted = any((case.key.line_key, case.protocol) == own for case in cases)
    return pinned_at_level(entry, occasion.date) if wanted else entry


def _revised(
    draft: Draft[Document],
    keyed: Sequence[Keyed],
    occasion: Occasion,
    revise: Callable[[Entry, Sequence[Case], Occasion], Entry | None],
) -> tuple[Updated, ...]:
    """Replace each entry in the files of these cases by what `revise` makes of it; what changed.

    None: the entry is removed.
    """
    changes: list[Updated] = []
    for path, document, cases in _existing(draft, keyed):
        entries = sorted(document.entries, key=lambda entry: entry.order)
        pairs = [(entry, revise(entry, cases, occasion)) for entry in entries]
        own = [_change(path, document, *pair) for pair in pairs if pair[0] != pair[1]]
        if own:
            left = tuple(after for _, after in pairs if after is not None)
            draft.put(path, recorded(replace(document, entries=left), own, occasion))
        changes += own
    return tuple(changes)


def _change(path: Path, document: Document, before: Entry, after: Entry | None) -> Updated:
    case = case_of(document, before, before.protocol, path.name)
    now = baseline_of(case, after) if after is not None else None
    return Change(path=path, case=case, before=baseline_of(case, before), after=now)


def _existing(
    draft: Draft[Document], cases: Sequence[Keyed]
) -> list[tuple[Path, Document, list[Case]]]:
    found: dict[Path, tuple[Path, Document, list[Case]]] = {}
    for key, case in cases:
        path, document = draft.find(key, case)
        if document is not None:
            found.setdefault(path, (path, document, []))[2].append(case)
    return list(found.values())


def recorded(document: Document, changes: Sequence[Updated], occasion: Occasion) -> Document:
    """`document` with a line of history about `changes`, all those of its file."""
    update = Update(
        date=occasion.date,
        commit=occasion.commit,
        entries=len(changes),
        worst_percent=round(max(map(_rise_percent, changes), default=0.0), 2),
        reason=occasion.reason,
        accepted_regression=any(change.lost for change in changes),
    )
    return replace(document, history=(*document.history, update)[-MOST_UPDATES:])


def _rise_percent(change: Updated) -> float:
    """By how much the level rose; 0 where there is nothing to compare it with."""
    before, after = change.before, change.after
    if before is None or after is None or before.case.protocol != after.case.protocol:
        return 0.0
    if before.level_s is None or after.level_s is None:
        return 0.0
    return 100 * (after.level_s / before.level_s - 1)
