"""Updates of baselines: save and prune, each with the Changes that it made.

All changes go into a draft, files of times with a line of history each, and nothing is written
here. What may be saved is decided elsewhere. Pruning is done only on request, and measures nothing.

A level may creep: each step is too small for a verdict, and each is accepted. So a baseline has a
pinned level, which its level may exceed by a budget, no more. It rises only when somebody accepts a
loss with a reason; an improvement beyond the budget lowers it, or it could be lost again unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model.case import Case, converted
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import MOST_SESSIONS, MOST_UPDATES, Baseline, Record, rounded_us
from busbw.model.words import seconds_text

from .document import BaselineFile, Update
from .files import Draft


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What a session measured of a case, and the record of it that is to be stored.

    Without times it was out of memory. With `append` the level did not change, and the session
    joins those that are stored; without it the session replaces them. `memory_limit_bytes` is the
    session's artificial limit, if it had one. `cause` says in a word or two why it is stored; with
    `takes_loss` also if it loses more than the budget.
    """

    key: EnvironmentKey
    measurement: Measurement
    record: Record
    append: bool = False
    memory_limit_bytes: int | None = None
    cause: str = ""
    takes_loss: bool = False

    @property
    def baseline(self) -> Baseline:
        """The baseline with this session alone; its level is not pinned yet."""
        return converted(
            Baseline,
            next(iter(self.measurement.failures), None),
            case=self.measurement.case,
            records=(self.record,),
            memory_limit_bytes=None if self.record.times_us else self.memory_limit_bytes,
        )


def exceeds_budget(level: float, pinned: float, budget: float) -> bool:
    """Return whether `level` exceeds `pinned`, in the same unit, by more than the fraction."""
    return level > pinned * (1 + budget)


def merge_session(
    old: Baseline | None, new: Baseline, *, append: bool, budget: float
) -> tuple[Baseline, bool]:
    """Return the baseline to store for `new`, which has one unpinned session, and if it lost.

    The baseline is `new` instead of `old` or, with `append`, `old` with its session. If it loses
    more than the budget, storing it takes a reason. Times of another protocol are not comparable:
    they replace the old times and pin their own level. Running out of memory where there was a time
    is a loss beyond any budget.
    """
    if old is None or old.oom or old.case.protocol != new.case.protocol:
        return pinned_at_level(new), False
    if new.oom:
        return new, True
    records = (*old.records, *new.records)[-MOST_SESSIONS:] if append else new.records
    baseline = replace(new, records=records, pinned_us=old.pinned_us, pinned_date=old.pinned_date)
    level, pinned = baseline.level_us, old.pinned_us
    assert level is not None and pinned is not None
    lost = exceeds_budget(level, pinned, budget)
    if lost or exceeds_budget(pinned, level, budget):
        baseline = pinned_at_level(baseline)
    return baseline, lost


def pinned_at_level(baseline: Baseline) -> Baseline:
    """Return `baseline` pinned at its level, if it has one, on the date of its newest session."""
    level = baseline.level_us
    if level is None:
        return baseline
    return replace(baseline, pinned_us=rounded_us(level), pinned_date=baseline.date)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One baseline before and after; None: none, or it was removed.

    `lost`: it loses more than the budget. `cause` says in a word or two why it is written. A change
    with a `refusal` was not made: the text says how much more than the budget it would lose.
    """

    path: Path
    case: Case
    before: Baseline | None
    after: Baseline | None
    lost: bool = False
    cause: str = ""
    refusal: str = ""


def save(
    draft: Draft,
    accepted: Sequence[Accepted],
    *,
    session: Record,
    budget: float,
    only_new: bool = False,
    reason: str = "",
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Put what was accepted in `session` into `draft`, each file with a line of history.

    Args:
        draft: The opened files; other baselines in them stay.
        accepted: What was accepted.
        session: The session, for the line of history.
        budget: The fraction that a baseline may lose against its pinned level.
        only_new: Keep what is stored as it is.
        reason: The user's reason, for the line of history.

    Returns:
        What changed, and what was refused.

    Raises:
        BaselineError: A file cannot be read.

    """
    changed: dict[Path, BaselineFile] = {}
    changes, refusals = list[Change](), list[Change]()
    for candidate in accepted:
        case, new = candidate.measurement.case, candidate.baseline
        path, stored = draft.find(candidate.key, case)
        file = changed.get(path, stored) or converted(BaselineFile, case, environment=candidate.key)
        before = file.find(case, new.memory_limit_bytes)
        if only_new and before is not None:
            continue
        after, lost = merge_session(before, new, append=candidate.append, budget=budget)
        change = Change(
            path=path, case=case, before=before, after=after, lost=lost, cause=candidate.cause
        )
        if lost and before is not None and not candidate.takes_loss:
            text = f"{case.name}: {_refusal_text(before, after, budget)}"
            refusals.append(replace(change, refusal=text))
            continue
        # What fits under an artificial limit is no longer out of memory under it.
        replaced = {after.line, (case.line_key, candidate.memory_limit_bytes or 0)}
        others = (baseline for baseline in file.baselines if baseline.line not in replaced)
        changed[path] = replace(file, baselines=(*others, after))
        changes.append(change)
    for path, file in changed.items():
        changes_of_file = [change for change in changes if change.path == path]
        draft.put(path, _recorded(file, changes_of_file, session, reason))
    return tuple(changes), tuple(refusals)


def _refusal_text(stored: Baseline, refused: Baseline, budget: float) -> str:
    pinned_s, level_s = stored.pinned_s, refused.level_s
    assert pinned_s is not None
    pinned = f"{seconds_text(pinned_s)} pinned on {stored.pinned_date}"
    if level_s is None:
        return f"the baseline was not written: out of memory where there was a time, {pinned}"
    ratio = level_s / pinned_s
    loss = f"{100 * (ratio - 1):.1f} % above" if ratio < 2 else f"{ratio:.3g} x"
    return (
        f"the baseline was not written: its level would be {seconds_text(level_s)}, {loss} the "
        f"{pinned}; the budget is {100 * budget:g} %"
    )


def prune(
    draft: Draft, keep: Sequence[tuple[EnvironmentKey, Case]], *, session: Record, reason: str = ""
) -> tuple[Change, ...]:
    """Remove every other case from the files of the cases in `keep`.

    Returns what was removed. A file without baselines is removed. Raises BaselineError if a file
    cannot be read.
    """
    files: dict[Path, tuple[BaselineFile, list[object]]] = {}
    for key, case in keep:
        path, file = draft.find(key, case)
        if file is not None:
            files.setdefault(path, (file, []))[1].append(case.line_key)
    changes: list[Change] = []
    for path, (file, line_keys) in files.items():
        removed = [
            Change(path=path, case=baseline.case, before=baseline, after=None)
            for baseline in sorted(file.baselines, key=lambda baseline: baseline.line)
            if baseline.case.line_key not in line_keys
        ]
        if removed:
            others = tuple(b for b in file.baselines if b.case.line_key in line_keys)
            draft.put(path, _recorded(replace(file, baselines=others), removed, session, reason))
        changes += removed
    return tuple(changes)


def _recorded(
    file: BaselineFile, changes: Sequence[Change], session: Record, reason: str
) -> BaselineFile:
    """Return `file` with a line of history about all its `changes`."""
    update = Update(
        date=session.date,
        commit=session.commit,
        entries=len(changes),
        reason=reason,
        accepted_regression=any(change.lost for change in changes),
    )
    return replace(file, history=(*file.history, update)[-MOST_UPDATES:])
