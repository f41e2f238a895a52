"""Updates of baselines: save and prune, each with the Changes that it made.

All changes go into a draft, files of times with a line of history each, and nothing is written
here; a Refusal words itself. What may be saved is decided elsewhere. Pruning is done
only on request, and measures nothing.

A level may creep: each step is too small for a verdict, and each is accepted. So a baseline has a
pin, which its level may exceed by a budget, no more. The pin rises only when somebody accepts a
loss with a reason; an improvement beyond the budget lowers it, or it could be lost again unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.model.case import Case, converted
from busbw.model.launch import Measurement
from busbw.model.machine import EnvironmentKey
from busbw.model.stored import MOST_SESSIONS, Baseline, Record, rounded_us
from busbw.model.words import seconds_text

from .document import BaselineFile, Update
from .files import Draft

# A year of weekly updates; more is what version control is for.
MOST_UPDATES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What a session measured of a case, and the record of it that it wants stored.

    Without times it was out of memory. With `append` the level did not change, and the session
    joins those that are stored; without it the session replaces them. `memory_limit_bytes` is the
    session's artificial limit, if it had one. `why` says in a word or two why it is stored; with
    `takes_loss` also if it loses more than the budget.
    """

    key: EnvironmentKey
    measurement: Measurement
    record: Record
    append: bool = False
    memory_limit_bytes: int | None = None
    why: str = ""
    takes_loss: bool = False

    @property
    def baseline(self) -> Baseline:
        """The baseline with this session alone; its pin is not set yet."""
        return converted(
            Baseline,
            next(iter(self.measurement.failures), None),
            case=self.measurement.case,
            records=(self.record,),
            memory_limit_bytes=None if self.record.times_us else self.memory_limit_bytes,
        )


def beyond(level: float, pinned: float, budget: float) -> bool:
    """Return whether `level` exceeds `pinned`, in the same unit, by more than the fraction."""
    return level > pinned * (1 + budget)


def joined(
    old: Baseline | None, new: Baseline, *, append: bool, budget: float
) -> tuple[Baseline, bool]:
    """Return the baseline to store for `new`, which has one session and no pin, and if it lost.

    The baseline is `new` instead of `old` or, with `append`, joined to it. If it loses more than
    the budget, storing it takes a reason. Times of another protocol are not comparable: they
    replace the old times and pin their own level. Running out of memory where there was a time is a
    loss beyond any budget.
    """
    if old is None or old.oom or old.case.protocol != new.case.protocol:
        return pinned_at_level(new), False
    if new.oom:
        return new, True
    records = (*old.records, *new.records)[-MOST_SESSIONS:] if append else new.records
    baseline = replace(new, records=records, pinned_us=old.pinned_us, pinned_date=old.pinned_date)
    level, pinned = baseline.level_us, old.pinned_us
    assert level is not None and pinned is not None
    lost = beyond(level, pinned, budget)
    if lost or beyond(pinned, level, budget):
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

    `lost`: it lost more than the budget, and somebody accepted that with a reason. `why` says in a
    word or two why it was written.
    """

    path: Path
    case: Case
    before: Baseline | None
    after: Baseline | None
    lost: bool = False
    why: str = ""


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
    why: str

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

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What a save may do: a baseline may lose `budget`, a fraction, against its pinned level.

    What was accepted although it loses more is written, and pinned. `only_new` keeps what is stored
    as it is.
    """

    budget: float
    only_new: bool = False


def save(
    draft: Draft,
    accepted: Sequence[Accepted],
    *,
    session: Record,
    rules: Rules,
    reason: str = "",
) -> Saved:
    """Put what was accepted in `session` into `draft`, each file with a line of history.

    Only the given baselines are replaced. What `rules` forbid is not saved but returned as a
    refusal. Raises BaselineError if a file cannot be read.
    """
    done: list[Change | Refusal | None] = []
    opened: dict[Path, BaselineFile] = {}
    for candidate in accepted:
        path, file = draft.opened(candidate.key, candidate.measurement.case)
        opened[path], result = _merged(opened.get(path, file), candidate, path, rules)
        done.append(result)
    changes = tuple(result for result in done if isinstance(result, Change))
    for path in dict.fromkeys(change.path for change in changes):
        changes_of_file = [change for change in changes if change.path == path]
        draft.put(path, _recorded(opened[path], changes_of_file, session, reason))
    return Saved(
        changes=changes, refusals=tuple(result for result in done if isinstance(result, Refusal))
    )


def _merged(
    file: BaselineFile, accepted: Accepted, path: Path, rules: Rules
) -> tuple[BaselineFile, Change | Refusal | None]:
    """Return `file` with one case's session, and the change or refusal; None if nothing changed."""
    case, new = accepted.measurement.case, accepted.baseline
    before = file.find(case, new.memory_limit_bytes)
    if rules.only_new and before is not None:
        return file, None
    after, lost = joined(before, new, append=accepted.append, budget=rules.budget)
    if lost and not accepted.takes_loss:
        assert before is not None
        return file, Refusal(
            path=path, case=case, stored=before, wanted=after, budget=rules.budget, why=accepted.why
        )
    # What fits under an artificial limit is no longer out of memory under it.
    limited = file.find(case, accepted.memory_limit_bytes)
    left = tuple(kept for kept in file.baselines if limited is None or kept.line != limited.line)
    change = Change(path=path, case=case, before=before, after=after, lost=lost, why=accepted.why)
    return replace(file, baselines=left).with_baseline(after), change


Keyed = tuple[EnvironmentKey, Case]


def prune(
    draft: Draft, keep: Sequence[Keyed], *, session: Record, reason: str = ""
) -> tuple[Change, ...]:
    """Remove every other case from the files of the cases in `keep`.

    Returns what was removed. A file without baselines is removed. Raises BaselineError if a file
    cannot be read.
    """
    files: dict[Path, tuple[BaselineFile, list[Case]]] = {}
    for key, case in keep:
        path, file = draft.find(key, case)
        if file is not None:
            files.setdefault(path, (file, []))[1].append(case)
    changes: list[Change] = []
    for path, (file, cases) in files.items():
        kept = {case.line_key for case in cases}
        left = tuple(baseline for baseline in file.baselines if baseline.case.line_key in kept)
        removed = [
            Change(path=path, case=baseline.case, before=baseline, after=None)
            for baseline in sorted(file.baselines, key=lambda baseline: baseline.line)
            if baseline.case.line_key not in kept
        ]
        if removed:
            draft.put(path, _recorded(replace(file, baselines=left), removed, session, reason))
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
