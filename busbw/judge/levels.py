"""Select the sessions with which today's session is compared, and describe losses over sessions.

Baselines contain the accepted sessions, and the history contains all sessions that were recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from busbw.model.case import Case
from busbw.model.stored import Baseline, Record, StoredSession, merge_sessions
from busbw.model.words import change_text, plural, shorten_list

from .lasting_losses import (
    Assessment,
    assess_session,
    deviation_of_accepted_session,
    replay_sessions,
)
from .policy import (
    AUTO_LIMIT_SHARE,
    AUTO_MIN_SESSION_COUNT,
    AUTO_WHOLE_SESSION_INTERVAL,
    MIN_LOSS_TICKS,
    Policy,
    RuleThresholds,
)
from .rule import compute_limits
from .series import CaseTimes, LogTimeSummary, ReplayedHistory, SeriesLoss


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierSessions:
    """The earlier sessions of one machine, from which the levels of its cases are computed.

    Attributes:
        sessions: The sessions, oldest first. Sessions that began close to each other are merged.
        cases: The cases with accepted times.
        failed_cases: The cases that failed in any session of the history.
        replayed_histories: A cache of the results of `build_replayed_history`, by the measured
            cases and the steps of their clocks.

    """

    sessions: tuple[StoredSession, ...]
    cases: frozenset[Case]
    failed_cases: frozenset[Case] = frozenset()
    replayed_histories: dict[object, ReplayedHistory] = field(
        default_factory=dict, compare=False, repr=False
    )

    def assess_session(
        self,
        times_s: Mapping[Case, Sequence[float]],
        policy: Policy,
        *,
        planned_launch_count: int | None = None,
        clock_ticks_s: Mapping[Case, float] = {},
    ) -> Assessment:
        """Judge a session by the earlier sessions, and return the assessment.

        Args:
            times_s: The times of the session's launches in seconds, by case. Cases without an
                accepted time are ignored.
            policy: The thresholds for the class of devices.
            planned_launch_count: The number of launches before the confirming launches; None if the
                last launches of each case are the confirming launches.
            clock_ticks_s: The step of the clock in seconds, for each case whose times show that the
                clock advances in steps.

        """
        measured = {case: times for case, times in times_s.items() if case in self.cases}
        key = (
            frozenset(measured),
            *sorted((case.name, tick) for case, tick in clock_ticks_s.items()),
        )
        if key not in self.replayed_histories:
            sessions = [
                {
                    case: _merge_records(records, policy.rule)
                    for case, records in session.records.items()
                }
                for session in self.sessions
            ]
            self.replayed_histories[key] = build_replayed_history(
                sessions, policy, measured_cases=measured, clock_ticks_s=clock_ticks_s
            )
        history = self.replayed_histories[key]
        today = {
            case: CaseTimes.split(times, policy.rule, planned_launch_count)
            for case, times in measured.items()
        }
        return assess_session(history, compute_limits(history, today), today)


def build_replayed_history(
    sessions: Sequence[Mapping[Case, CaseTimes]],
    policy: Policy,
    *,
    measured_cases: Collection[Case],
    clock_ticks_s: Mapping[Case, float] = {},
) -> ReplayedHistory:
    """Judge earlier sessions one after the other, and return the history of these sessions.

    Args:
        sessions: The launches of each earlier session by case, oldest session first.
        policy: The thresholds for the class of devices.
        measured_cases: The cases of today. Cases of frameworks without a case of today are left
            out.
        clock_ticks_s: The step of the clock in seconds, for each case whose times show that the
            clock advances in steps.

    """
    cases = dict.fromkeys(case for session in sessions for case in session)
    counts = Counter(case.framework for case in cases if case in measured_cases)
    pooled = {name for name, count in counts.items() if count >= policy.rule.min_shared_case_count}
    loss_floors: dict[Case, float] = {}
    replayed = [
        {case: times for case, times in session.items() if case.framework in counts}
        for session in sessions
    ]
    for case, times in (pair for session in replayed for pair in session.items()):
        tick_s = MIN_LOSS_TICKS * clock_ticks_s.get(case, 0.0)
        least_s = max(policy.least_visible_difference_s(case.clock), tick_s)
        loss_floors.setdefault(case, math.log1p(least_s / math.exp(times.all_launches.log_median)))
    history = ReplayedHistory(
        rule=policy.rule, frameworks_with_shared_part=frozenset(pooled), loss_floors=loss_floors
    )
    return replay_sessions(filter(None, replayed), history)


def _merge_records(records: Sequence[Record], thresholds: RuleThresholds) -> CaseTimes:
    """Return the times of one case in a session that was merged from several sessions.

    `records` has the record of the case from each of these sessions. `thresholds` says how many of
    the last launches are confirming launches. In the sum of squares of all launches, the deviation
    of each launch is from the mean of its own record. So differences between the merged sessions do
    not count as noise.
    """
    times = CaseTimes.split([time_s for record in records for time_s in record.times_s], thresholds)
    parts = [LogTimeSummary.summarize(record.times_s) for record in records]
    squares = math.fsum(part.sum_of_squares for part in parts)
    degrees_of_freedom = sum(part.degrees_of_freedom for part in parts)
    return replace(
        times,
        all_launches=replace(
            times.all_launches, sum_of_squares=squares, degrees_of_freedom=degrees_of_freedom
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTimes:
    """The stored times of one framework's cases on one machine.

    Attributes:
        baselines: The baselines that have times, and not only an out-of-memory error.
        history: The sessions that `--history` recorded.
        acknowledged_changes: The moment at which an acknowledged change of the level began, by
            case. Cases without such a change are absent.

    """

    baselines: Sequence[Baseline]
    history: Sequence[StoredSession] = ()
    acknowledged_changes: Mapping[Case, datetime] = field(default_factory=dict)

    def accepted_and_later_sessions(self, merge_within: timedelta) -> tuple[StoredSession, ...]:
        """Return the accepted sessions and the recorded sessions since then, oldest first.

        Sessions that began less than `merge_within` apart are merged, with these exceptions:

        - A session that found a change is not merged with other sessions.
        - A recorded session less than `merge_within` after an accepted session of a case is left
          out for this case, unless the session found a change: merging would change accepted times.
        - For a case with an acknowledged change, sessions before the change are left out as soon as
          a session after the change measured the case.
        """
        accepted, acknowledged = _accepted_sessions(self.baselines), self.acknowledged_changes
        begins = {b.case: [record.began for record in b.records] for b in self.baselines}
        stored = {times for session in accepted for times in session.times_s.items()}

        # Sessions soon after an accepted session, and copies of accepted sessions, do not count.
        def counts_as_later_session(session: StoredSession, case: Case) -> bool:
            ages = [session.began - began for began in begins.get(case, ())]
            is_soon = any(timedelta(0) <= age < merge_within for age in ages)
            return (
                bool(ages)
                and max(ages) >= timedelta(0)
                and (session.has_change or not is_soon)
                and (case, session.case_times_s(case)) not in stored
            )

        later = _keep_selected_cases(self.history, counts_as_later_session)
        sessions = merge_sessions([*accepted, *later], merge_within)
        changed = {
            case
            for session in sessions
            for case in session.records
            if case in acknowledged and session.began >= acknowledged[case]
        }
        return tuple(
            _keep_selected_cases(
                sessions, lambda session, c: c not in changed or session.began >= acknowledged[c]
            )
        )


def collect_earlier_sessions(
    stored_times: Collection[StoredTimes],
    policy: Policy,
    failed_cases: frozenset[Case] = frozenset(),
) -> EarlierSessions | None:
    """Return the earlier sessions of one machine; None if the machine has no baseline with a time.

    `stored_times` has the stored times of each framework on the machine. `failed_cases` are the
    cases that failed in any session of the history.
    """
    merge_within = policy.session_merge_time
    sessions = [
        session
        for times in stored_times
        for session in times.accepted_and_later_sessions(merge_within)
    ]
    cases = frozenset(baseline.case for times in stored_times for baseline in times.baselines)
    merged = merge_sessions(sessions, merge_within)
    return (
        EarlierSessions(sessions=merged, cases=cases, failed_cases=failed_cases) if cases else None
    )


def _accepted_sessions(baselines: Sequence[Baseline]) -> list[StoredSession]:
    """Return the accepted sessions, which are assembled from the records of baselines.

    Records with the same moment and the same commit are from the same session.
    """
    sessions: dict[tuple[datetime, str], dict[Case, tuple[Record, ...]]] = {}
    for baseline in baselines:
        for record in baseline.records:
            records = sessions.setdefault((record.began, record.commit), {})
            # Moments are in whole seconds, so two sessions of a case may have the same moment.
            records[baseline.case] = (*records.get(baseline.case, ()), record)
    return [StoredSession(began=began, records=records) for (began, _), records in sessions.items()]


def _keep_selected_cases(
    sessions: Sequence[StoredSession], is_selected: Callable[[StoredSession, Case], bool]
) -> list[StoredSession]:
    """Return `sessions` with only the cases for which `is_selected(session, case)` returns True.

    Sessions that have no selected case are left out.
    """
    selected = (
        replace(
            session,
            records={
                case: times for case, times in session.records.items() if is_selected(session, case)
            },
        )
        for session in sessions
    )
    return [session for session in selected if session.records]


def cases_decided_by_first_launch(assessment: Assessment) -> Iterator[Case]:
    """Yield the cases that need no more launches, because their first launch is clearly a PASS.

    `assessment` has one launch of each case. A launch is clearly a PASS if its log ratio is at most
    the fraction `policy.AUTO_LIMIT_SHARE` of the limit. Nevertheless a case needs more launches

    - if the case or its framework has, or had in the last session, a loss over several sessions,
    - if the framework as a whole comes near its limit,
    - if the case seems faster, or if its level has too few sessions.

    In a session that is noisier than usual, every case needs more launches. The same is true for
    every session whose number is a multiple of `policy.AUTO_WHOLE_SESSION_INTERVAL`.
    """
    history = assessment.history
    is_whole = history.session_count % AUTO_WHOLE_SESSION_INTERVAL == 0
    if is_whole or assessment.widening > 1:
        return
    for case, limits in assessment.limits.items():
        shared, before = assessment.shared_parts[case.framework], history.series[case]
        states = [assessment.latest_losses[name] for name in (case, case.framework)]
        states += [before.latest_loss, history.series[case.framework].latest_loss]
        log_ratio = limits.common_shift + limits.residual
        if (
            len(before.counted_positions) >= AUTO_MIN_SESSION_COUNT
            and limits.faster_below_log_ratio
            <= log_ratio
            <= AUTO_LIMIT_SHARE * limits.slower_above_log_ratio
            and shared.shift_log_ratio <= AUTO_LIMIT_SHARE * shared.max_shift_log_ratio
            and not any(state.loss for state in states)
        ):
            yield case


# A text names at most this many cases, and only counts further cases.
_MAX_NAMED_LOSSES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class LastingLoss:
    """A loss that several sessions show, of a case or of all cases of a framework together.

    Attributes:
        subject: The case, or the name of the framework.
        series_loss: The size of the loss, and the number of sessions with the loss.
        began: When the first session with the loss began (UTC).
        stack_changes: The changes of the stack from the session before to this first session, such
            as ``jaxlib 0.10.1 -> 0.10.2``; empty if no change is known.

    """

    subject: Case | str
    series_loss: SeriesLoss
    began: datetime
    stack_changes: tuple[str, ...]

    @property
    def text(self) -> str:
        """A text such as ``all cases of jax are 3 % slower than expected over the last ...``."""
        verb = "are" if isinstance(self.subject, str) else "is"
        loss = change_text(math.expm1(self.series_loss.mean_loss))
        return (
            f"{_loss_subject_text(self.subject)} {verb} {loss} slower than expected over the last "
            f"{plural(self.series_loss.loss_session_count, 'session')}, "
            f"since {self.began:%Y-%m-%d}; "
            f"changed there: {', '.join(self.stack_changes) or 'nothing that is known'}"
        )


def _loss_subject_text(subject: Case | str) -> str:
    """Return the name of a case, or ``all cases of jax`` for the framework ``jax``."""
    return f"all cases of {subject}" if isinstance(subject, str) else subject.name


def find_lasting_losses(
    earlier_sessions: Sequence[StoredSession], todays_session: StoredSession, assessment: Assessment
) -> tuple[LastingLoss, ...]:
    """Return the losses over several sessions: first of frameworks, then of cases, largest first.

    Args:
        earlier_sessions: The sessions before today's, oldest first, as `assessment` numbers them.
        todays_session: The session that was judged.
        assessment: The assessment of today's session.

    """
    losses, every = [], [*earlier_sessions, todays_session]
    for name, state in assessment.latest_losses.items():
        if not state.loss_session_count:
            continue
        framework = name if isinstance(name, str) else name.framework
        first = every[state.first_loss_session_number]
        earlier = every[: state.first_loss_session_number]
        measured = [s for s in earlier if any(c.framework == framework for c in s.records)]
        changes = first.setup_changes_since([first, *measured][-1], framework)
        losses.append(
            LastingLoss(subject=name, series_loss=state, began=first.began, stack_changes=changes)
        )
    # The key is the same for all losses of whole frameworks, so that their order stays.
    losses.sort(key=lambda x: -math.inf if isinstance(x.subject, str) else -x.series_loss.mean_loss)
    return tuple(losses)


def lasting_losses_text(losses: Sequence[LastingLoss]) -> str:
    """Return a line that describes the first losses and counts the others; "" without a loss."""
    return "; ".join(shorten_list([loss.text for loss in losses], _MAX_NAMED_LOSSES, "case"))


def ended_losses_text(assessment: Assessment) -> str:
    """Return a text on the cases and frameworks whose loss ended today; "" if no loss ended."""
    sessions = {
        name: state.ended_loss_session_count
        for name, state in assessment.latest_losses.items()
        if state.ended_loss_session_count
    }
    if not sessions:
        return ""
    names = shorten_list(list(map(_loss_subject_text, sessions)), _MAX_NAMED_LOSSES, "case")
    count = plural(max(sessions.values()), "session")
    return f"repaired: back at the level after {count}: {', '.join(names)}"


def log_ratios_of_unusual_accepted_sessions(assessment: Assessment) -> dict[Case | str, float]:
    """Return the log ratio of each accepted session that clearly differs from later sessions.

    A key of the result is a case, or the name of a framework for the shared part of the framework.
    The value is the log ratio of the accepted session to the median of the later sessions: positive
    if the accepted session was slower.
    """
    deviations = {
        name: deviation_of_accepted_session(
            assessment.history.series[name], latest_session, assessment.history.rule
        )
        for name, latest_session in assessment.latest_session_by_subject.items()
    }
    return {name: odd for name, odd in deviations.items() if odd}


def unusual_accepted_sessions_text(assessment: Assessment) -> str:
    """Return a text on unusual accepted sessions; "" if no accepted session is unusual.

    A session is unusual if it clearly differs from later sessions.
    """
    texts = [
        f"the accepted session was {change_text(math.expm1(abs(odd)))} "
        f"{'slower' if odd > 0 else 'faster'} than the {assessment.history.session_count} since, "
        f"in {_loss_subject_text(name)}"
        for name, odd in log_ratios_of_unusual_accepted_sessions(assessment).items()
    ]
    more = "accept again with --update-baselines, and a loss beyond the budget with a reason, too"
    return "; ".join([*shorten_list(texts, _MAX_NAMED_LOSSES, "case"), more]) if texts else ""
