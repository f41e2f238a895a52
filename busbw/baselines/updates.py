"""Updates of baselines: to save accepted times, and to prune cases that are no longer measured.

Both change a draft in memory, and add an entry to the change log of each changed file. `session`
decides which times may be saved.

Losses that are too small for a verdict could add up if all of them were accepted. Therefore a
baseline has a pinned time, which its level may exceed by at most the budget. The pinned time rises
only if the user accepts a loss with a reason. An improvement beyond the budget lowers it, because
otherwise the improvement could be lost again without a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model.case import Case, convert_to
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import MOST_SESSIONS, MOST_UPDATES, Baseline, Record, round_us
from busbw.model.words import seconds_text

from .document import BaselineFile, Update
from .files import Draft


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCase:
    """A measured case that the user accepts, and its record, which is to be stored.

    A record without times means that the case ran out of memory. With `append` the level did not
    change, so the session is added to the stored sessions; otherwise it replaces them.
    `memory_limit_bytes` is the artificial limit of the session, None without a limit. `cause` says
    in a few words why the case is stored. With `takes_loss` it is stored even if it loses more than
    the budget.
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
        """The baseline that has only this session, and no pinned time yet."""
        return convert_to(
            Baseline,
            next(iter(self.measurement.failures), None),
            case=self.measurement.case,
            records=(self.record,),
            memory_limit_bytes=None if self.record.times_us else self.memory_limit_bytes,
        )


def exceeds_budget(level: float, pinned: float, budget: float) -> bool:
    """Return whether the time `level` exceeds the time `pinned` by more than the `budget`.

    Both times have the same unit. The budget is a fraction: 0.1 is 10 %.
    """
    return level > pinned * (1 + budget)


def merge_session(
    old: Baseline | None, new: Baseline, *, append: bool, budget: float
) -> tuple[Baseline, bool]:
    """Return the baseline to store, and whether it loses more than the budget.

    The baseline is `new`, which has one session and no pinned time, or, with `append`, `old` and
    the session of `new`. It keeps the pinned time of `old` unless it loses or gains more than the
    budget. Times of another protocol cannot be compared: they replace the old times and pin their
    own level. Running out of memory where there was a time is a loss beyond any budget.
    """
    if old is None or old.is_out_of_memory or old.case.protocol != new.case.protocol:
        return pinned_at_level(new), False
    if new.is_out_of_memory:
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
    """Return `baseline` with its level as the pinned time, dated as its newest session.

    A baseline without times, which has no level, is returned unchanged.
    """
    level = baseline.level_us
    if level is None:
        return baseline
    return replace(baseline, pinned_us=round_us(level), pinned_date=baseline.date)


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineChange:
    """The change of a baseline in the file `path`.

    `before` is None if there was no baseline, and `after` is None if it was removed. `lost` says
    that the baseline loses more than the budget. `cause` says in a few words why it is written. A
    change with a `refusal` was not made: the text says how much more than the budget the baseline
    would lose.
    """

    path: Path
    case: Case
    before: Baseline | None
    after: Baseline | None
    lost: bool = False
    cause: str = ""
    refusal: str = ""


def save_accepted(
    draft: Draft,
    accepted: Sequence[AcceptedCase],
    *,
    session: Record,
    budget: float,
    only_new: bool = False,
    reason: str = "",
) -> tuple[tuple[BaselineChange, ...], tuple[BaselineChange, ...]]:
    """Put accepted baselines into `draft`, with an entry in the change log of each changed file.

    Args:
        draft: The opened files; all other baselines in them are kept.
        accepted: The accepted cases.
        session: The session that the entries name.
        budget: The fraction by which a level may exceed its pinned time: 0.1 is 10 %.
        only_new: Whether to skip cases that already have a baseline.
        reason: The user's reason, for the entries; may be empty.

    Returns:
        The changes made, and the changes refused because they exceed the budget.

    Raises:
        BaselineError: A file cannot be read.

    """
    changed: dict[Path, BaselineFile] = {}
    changes, refusals = list[BaselineChange](), list[BaselineChange]()
    for candidate in accepted:
        case, new = candidate.measurement.case, candidate.baseline
        path, stored = draft.find(candidate.key, case)
        file = changed.get(path, stored) or convert_to(
            BaselineFile, case, environment=candidate.key
        )
        before = file.find(case, new.memory_limit_bytes)
        if only_new and before is not None:
            continue
        after, lost = merge_session(before, new, append=candidate.append, budget=budget)
        change = BaselineChange(
            path=path, case=case, before=before, after=after, lost=lost, cause=candidate.cause
        )
        if lost and before is not None and not candidate.takes_loss:
            text = f"{case.name}: {_refusal_text(before, after, budget)}"
            refusals.append(replace(change, refusal=text))
            continue
        # A case that fits under an artificial limit no longer runs out of memory under this limit.
        replaced = {after.line_id, (case.line_key, candidate.memory_limit_bytes or 0)}
        others = (baseline for baseline in file.baselines if baseline.line_id not in replaced)
        changed[path] = replace(file, baselines=(*others, after))
        changes.append(change)
    for path, file in changed.items():
        changes_of_file = [change for change in changes if change.path == path]
        draft.put(path, _with_update(file, changes_of_file, session, reason))
    return tuple(changes), tuple(refusals)


def _refusal_text(stored: Baseline, refused: Baseline, budget: float) -> str:
    """Return a text that says by how much `refused` exceeds the budget of `stored`."""
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
) -> tuple[BaselineChange, ...]:
    """Remove all baselines of other cases from the files of the cases in `keep`.

    Args:
        draft: The opened files. A file that has no baseline left will be removed.
        keep: The cases to keep, with their keys. Files of other cases are not opened.
        session: The session that the entries in the change logs name.
        reason: The reason that the entries name.

    Returns:
        The changes, one for each baseline that was removed.

    Raises:
        BaselineError: A file cannot be read.

    """
    files: dict[Path, tuple[BaselineFile, list[object]]] = {}
    for key, case in keep:
        path, file = draft.find(key, case)
        if file is not None:
            files.setdefault(path, (file, []))[1].append(case.line_key)
    changes: list[BaselineChange] = []
    for path, (file, line_keys) in files.items():
        removed = [
            BaselineChange(path=path, case=baseline.case, before=baseline, after=None)
            for baseline in sorted(file.baselines, key=lambda baseline: baseline.line_id)
            if baseline.case.line_key not in line_keys
        ]
        if removed:
            others = tuple(b for b in file.baselines if b.case.line_key in line_keys)
            draft.put(path, _with_update(replace(file, baselines=others), removed, session, reason))
        changes += removed
    return tuple(changes)


def _with_update(
    file: BaselineFile, changes: Sequence[BaselineChange], session: Record, reason: str
) -> BaselineFile:
    """Return `file` with an entry about its `changes` in its change log."""
    update = Update(
        date=session.date,
        commit=session.commit,
        entries=len(changes),
        reason=reason,
        accepted_regression=any(change.lost for change in changes),
    )
    return replace(file, history=(*file.history, update)[-MOST_UPDATES:])
