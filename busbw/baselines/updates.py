"""Updates of baselines: put accepted times into a draft, and prune cases that are not measured.

Both updates change a draft in memory, and add an entry to the change log of each changed file. The
package `session` decides which times may be saved.

The stored time of a baseline (`level_us`) is the median over its sessions. Losses that are too
small for a verdict could add up if all of these losses were accepted. Therefore a baseline has a
pinned time, which the stored time may exceed by at most the budget. The pinned time rises only if
the user accepts a loss with a reason. An improvement beyond the budget lowers the pinned time,
because otherwise the improvement could be lost again without a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model.case import Case, dataclass_from
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import (
    MAX_BASELINE_SESSIONS,
    MAX_KEPT_UPDATES,
    Baseline,
    Record,
    round_microseconds,
)
from busbw.model.words import seconds_text

from .document import BaselineFile, ChangeLogEntry
from .store import BaselineDraft


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCase:
    """A measured case whose times the user accepts.

    Attributes:
        key: The machine.
        measurement: The measurement of the case.
        record: The record to store, with empty times if the case ran out of memory.
        is_appended: Whether the record is appended to the stored records, because the level did
            not change. Otherwise the record replaces the stored records.
        memory_limit_bytes: The artificial limit of memory in the session; None without a limit.
        cause: Why the case is stored, in a few words, such as its outcome.

    """

    key: EnvironmentKey
    measurement: Measurement
    record: Record
    is_appended: bool = False
    memory_limit_bytes: int | None = None
    cause: str = ""

    @property
    def baseline(self) -> Baseline:
        """A baseline of `record` alone, without a pinned time."""
        return dataclass_from(
            Baseline,
            next(iter(self.measurement.failures), None),
            case=self.measurement.case,
            records=(self.record,),
            memory_limit_bytes=None if self.record.times_us else self.memory_limit_bytes,
        )


def exceeds_budget(time: float, pinned_time: float, budget: float) -> bool:
    """Return whether `time` exceeds `pinned_time` by more than the fraction `budget`.

    Both times have the same unit. A budget of 0.1 allows a time that is 10 % longer.
    """
    return time > pinned_time * (1 + budget)


def merge_into_baseline(
    stored_baseline: Baseline | None,
    accepted_baseline: Baseline,
    *,
    is_appended: bool,
    budget: float,
) -> tuple[Baseline, bool]:
    """Merge the record of an accepted session into the stored baseline of a case.

    A baseline is over the budget in two cases: its stored time (`level_us`) exceeds the pinned time
    by more than `budget`, or the case ran out of memory and the stored baseline has a time. The
    pinned time changes only if the stored time is longer or shorter by more than the budget. Times
    of another protocol cannot be compared with the stored times. Such times replace the stored
    times, and their own median is pinned.

    Args:
        stored_baseline: The stored baseline; None if the case has no baseline.
        accepted_baseline: The baseline that contains only the accepted session.
        is_appended: Whether the session is appended to the stored sessions. Otherwise the session
            replaces the stored sessions.
        budget: The allowed loss as a fraction of the pinned time.

    Returns:
        The baseline to store, and whether this baseline is over the budget.

    """
    if (
        stored_baseline is None
        or stored_baseline.is_out_of_memory
        or stored_baseline.case.protocol != accepted_baseline.case.protocol
    ):
        return pin_stored_time(accepted_baseline), False
    if accepted_baseline.is_out_of_memory:
        return accepted_baseline, True
    earlier = stored_baseline.records if is_appended else ()
    baseline = replace(
        accepted_baseline,
        records=(*earlier, *accepted_baseline.records)[-MAX_BASELINE_SESSIONS:],
        pinned_us=stored_baseline.pinned_us,
        pinned_date=stored_baseline.pinned_date,
    )
    level, pinned = baseline.level_us, stored_baseline.pinned_us
    assert level is not None and pinned is not None
    is_over_budget = exceeds_budget(level, pinned, budget)
    if is_over_budget or exceeds_budget(pinned, level, budget):
        baseline = pin_stored_time(baseline)
    return baseline, is_over_budget


def pin_stored_time(baseline: Baseline) -> Baseline:
    """Return `baseline` with its stored time (`level_us`) as the pinned time.

    The pinned date is the date of the newest session of the baseline. A baseline without times is
    returned unchanged.
    """
    level = baseline.level_us
    if level is None:
        return baseline
    return replace(baseline, pinned_us=round_microseconds(level), pinned_date=baseline.date)


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineChange:
    """The change of the baseline of a case.

    Attributes:
        path: The file of the baseline.
        case: The case.
        baseline_before: The baseline before the change; None for a new baseline.
        baseline_after: The baseline after the change; None for a removed baseline.
        is_over_budget: Whether `baseline_after` exceeds the pinned time by more than the budget, or
            replaces a time by out of memory.
        cause: Why the baseline is written, in a few words; empty if it is removed.

    """

    path: Path
    case: Case
    baseline_before: Baseline | None
    baseline_after: Baseline | None
    is_over_budget: bool = False
    cause: str = ""


def put_accepted_baselines(
    draft: BaselineDraft,
    accepted_cases: Sequence[AcceptedCase],
    *,
    session: Record,
    budget: float,
    only_new_cases: bool = False,
    reason: str = "",
) -> tuple[tuple[BaselineChange, ...], tuple[str, ...]]:
    """Put accepted baselines into `draft`, with an entry in the change log of each changed file.

    Args:
        draft: The files to change. Other baselines of these files are kept.
        accepted_cases: The accepted cases.
        session: A record of the session. The entries name the date and the commit of this record.
        budget: The allowed loss as a fraction of the pinned time: 0.1 is 10 %.
        only_new_cases: Whether to skip cases that already have a baseline.
        reason: The user's reason to accept losses beyond the budget; empty to refuse such losses.

    Returns:
        The changes made, and a text for each change that is refused because it exceeds the budget.

    Raises:
        BaselineError: A file cannot be read.

    """
    changed: dict[Path, BaselineFile] = {}
    changes, refusals = list[BaselineChange](), list[str]()
    for candidate in accepted_cases:
        case, new = candidate.measurement.case, candidate.baseline
        path, stored = draft.find(candidate.key, case)
        file = changed.get(path, stored) or dataclass_from(
            BaselineFile, case, environment=candidate.key
        )
        before = file.find(case, new.memory_limit_bytes)
        if only_new_cases and before is not None:
            continue
        after, is_over_budget = merge_into_baseline(
            before, new, is_appended=candidate.is_appended, budget=budget
        )
        if is_over_budget and before is not None and not reason:
            refusals.append(f"{case.name}: {_refusal_text(before, after, budget)}")
            continue
        # A case that fits under an artificial limit no longer runs out of memory under this limit.
        replaced = {after.line_id, (case.line_key, candidate.memory_limit_bytes or 0)}
        others = (baseline for baseline in file.baselines if baseline.line_id not in replaced)
        changed[path] = replace(file, baselines=(*others, after))
        changes.append(
            BaselineChange(
                path=path,
                case=case,
                baseline_before=before,
                baseline_after=after,
                is_over_budget=is_over_budget,
                cause=candidate.cause,
            )
        )
    for path, file in changed.items():
        changes_of_file = [change for change in changes if change.path == path]
        draft.put(path, _with_change_log_entry(file, changes_of_file, session, reason))
    return tuple(changes), tuple(refusals)


def _refusal_text(stored_baseline: Baseline, refused_baseline: Baseline, budget: float) -> str:
    """Return a text that says why `refused_baseline` does not replace `stored_baseline`.

    There are two possible reasons: the case ran out of memory, or the stored time would exceed the
    pinned time by more than `budget`, a fraction such as 0.1 for 10 %.
    """
    pinned_s, level_s = stored_baseline.pinned_s, refused_baseline.level_s
    assert pinned_s is not None
    pinned = f"{seconds_text(pinned_s)} pinned on {stored_baseline.pinned_date}"
    if level_s is None:
        return f"the baseline was not written: out of memory where there was a time, {pinned}"
    ratio = level_s / pinned_s
    loss = f"{100 * (ratio - 1):.1f} % above" if ratio < 2 else f"{ratio:.3g} x"
    return (
        f"the baseline was not written: the stored time would be {seconds_text(level_s)}, {loss} "
        f"the {pinned}; the budget is {100 * budget:g} %"
    )


def prune_baselines(
    draft: BaselineDraft,
    kept_cases: Sequence[tuple[EnvironmentKey, Case]],
    *,
    session: Record,
    reason: str = "",
) -> tuple[BaselineChange, ...]:
    """Remove the baselines of all cases but `kept_cases`, from the files of these cases only.

    Args:
        draft: The files to change. A file that has no baseline left will be removed.
        kept_cases: The cases to keep, each with its machine. Only files to which one of these cases
            belongs are changed.
        session: A record of the session. The entries in change logs name the date and the commit of
            this record.
        reason: The reason that these entries name.

    Returns:
        The changes, one for each baseline that was removed.

    Raises:
        BaselineError: A file cannot be read.

    """
    files: dict[Path, tuple[BaselineFile, list[object]]] = {}
    for key, case in kept_cases:
        path, file = draft.find(key, case)
        if file is not None:
            files.setdefault(path, (file, []))[1].append(case.line_key)
    changes: list[BaselineChange] = []
    for path, (file, line_keys) in files.items():
        removed = [
            BaselineChange(
                path=path, case=baseline.case, baseline_before=baseline, baseline_after=None
            )
            for baseline in sorted(file.baselines, key=lambda baseline: baseline.line_id)
            if baseline.case.line_key not in line_keys
        ]
        if removed:
            others = tuple(b for b in file.baselines if b.case.line_key in line_keys)
            draft.put(
                path,
                _with_change_log_entry(replace(file, baselines=others), removed, session, reason),
            )
        changes += removed
    return tuple(changes)


def _with_change_log_entry(
    file: BaselineFile, changes: Sequence[BaselineChange], session: Record, reason: str
) -> BaselineFile:
    """Return `file` with an entry about `changes` at the end of its change log.

    The entry names `reason`, and the date and the commit of `session`. The oldest entries beyond
    MAX_KEPT_UPDATES are dropped.
    """
    update = ChangeLogEntry(
        date=session.date,
        commit=session.commit,
        entries=len(changes),
        reason=reason,
        accepted_regression=any(change.is_over_budget for change in changes),
    )
    return replace(file, history=(*file.history, update)[-MAX_KEPT_UPDATES:])
