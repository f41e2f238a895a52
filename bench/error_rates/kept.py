"""Judge recorded sessions of unchanged code against one another.

Each session is accepted once, and each later session is judged against it: directly, as on the
first day after a baseline was made, or with recorded sessions between the two as its history. The
files are those that `--history` writes. A session counts if it has six launches or more.

Three launches of a session become its baseline or its entry in the history. The judged session has
three more launches, which confirm a suspicion. They are recorded later than the first three, as in
a real session: they are the last three of more than six launches, or the launches of a session of
three that began within some minutes. If no session has later launches, the next three are used.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from busbw.history.files import HistoryLine, read_all_machines
from busbw.judge.levels import build_replayed_history
from busbw.judge.policy import POLICIES
from busbw.judge.series import CaseTimes
from busbw.model.case import Case
from busbw.model.words import DeviceClass, plural

from .session import LAUNCHES, JudgedSession, Times, judge
from .shares import interval, percent, row

_SOON = timedelta(minutes=4)
# Rows of few sizes judge so many drawn sizes of each pair of sessions, so many times.
_FEW_CASES, _DRAWS = 3, 20
# How many sessions lie between the accepted session and the judged one, and how many such choices
# of recorded sessions are drawn at most.
_BETWEEN, _CHOICES = (1, 2, 5), 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A recorded session: its beginning, its device, and the times of its launches by case.

    `confirming_times_s` are the times of the launches that confirm a suspicion, in seconds by case.
    """

    began: datetime
    device: DeviceClass
    times_s: Times
    confirming_times_s: Times

    def select_cases(self, cases: Sequence[Case]) -> Session:
        """Return the session without all other cases."""
        times_s = {case: self.times_s[case] for case in cases}
        return replace(
            self,
            times_s=times_s,
            confirming_times_s={case: self.confirming_times_s[case] for case in cases},
        )


def read(folder: Path) -> list[Session]:
    """Read the sessions that have enough launches of every case, oldest first.

    If some of them have later launches, only these sessions are returned.
    """
    by_session: dict[str, list[HistoryLine]] = {}
    for machine in read_all_machines(folder).values():
        for line in machine:
            by_session.setdefault(line.session, []).append(line)
    sessions: list[Session] = []
    for lines in sorted(by_session.values(), key=lambda lines: lines[0].began):
        began, device = lines[0].began, lines[0].device
        times_s = {line.case: tuple(us / 1e6 for us in line.times_us) for line in lines}
        fewest = min(map(len, times_s.values()))
        if fewest >= 2 * LAUNCHES:
            last = {case: launches[-LAUNCHES:] for case, launches in times_s.items()}
            confirming_times_s = last if fewest > 2 * LAUNCHES else {}
            sessions.append(
                Session(
                    began=began,
                    device=device,
                    times_s=times_s,
                    confirming_times_s=confirming_times_s,
                )
            )
        elif sessions and began - sessions[-1].began < _SOON:
            sessions[-1] = replace(sessions[-1], confirming_times_s=times_s)
    return [session for session in sessions if session.confirming_times_s] or [
        replace(
            session, confirming_times_s={case: s[LAUNCHES:] for case, s in session.times_s.items()}
        )
        for session in sessions
    ]


def judge_last_session(
    sessions: Sequence[Session], time_factors: Mapping[Case, float]
) -> JudgedSession:
    """Judge the last of some sessions; the first was accepted, and the others are its history.

    `time_factors` maps cases to factors that multiply their times in the last session.
    """
    accepted, *_, session = sessions
    times_s = {
        case: tuple(
            time_factors.get(case, 1.0) * launch_s
            for launch_s in (*launches[:LAUNCHES], *session.confirming_times_s[case])
        )
        for case, launches in session.times_s.items()
        if case in accepted.times_s
    }
    policy = POLICIES[session.device]
    stored = [
        {
            case: CaseTimes.split(launches[:LAUNCHES], policy.rule)
            for case, launches in before.times_s.items()
        }
        for before in sessions[:-1]
    ]
    return judge(build_replayed_history(stored, policy, measured_cases=times_s), times_s, policy)


def rows(sessions: Sequence[Session]) -> Iterator[str]:
    """Yield the table: rows for all payloads, then for later sessions, then for few payloads."""
    yield row("sizes", "question", "answers", "share (95 %)")
    yield row(*["---"] * 4)
    whole, count = list(itertools.combinations(sessions, 2)), len(sessions[0].times_s)
    answers = [(count, *answer) for answer in _count_answers(whole, is_few=False)]
    for between in (count for count in _BETWEEN if count + 2 <= len(sessions)):
        choices = list(itertools.combinations(sessions, between + 2))
        if len(choices) > _CHOICES:
            choices = random.Random(1).sample(choices, _CHOICES)
        question = f"unchanged, after {plural(between, 'more session')}: red for any reason"
        red = sum(judge_last_session(choice, {}).is_red for choice in choices)
        answers.append((count, question, red, len(choices)))
    answers += [
        (_FEW_CASES, *answer)
        for answer in _count_answers(list(_draw_few_cases(whole)), is_few=True)
    ]
    for sizes, question, hits, among in answers:
        lower, upper = map(percent, interval(hits, among, "exact"))
        share = f"{percent(hits / among)} ({lower} to {upper})"
        yield row(str(sizes), question, f"{hits} of {among}", share)


def _draw_few_cases(
    pairs: Sequence[tuple[Session, Session]],
) -> Iterator[tuple[Session, Session]]:
    """Yield each pair of sessions several times, each time with a few random cases."""
    generator = random.Random(1)
    for accepted, session in pairs:
        for _ in range(_DRAWS):
            cases = generator.sample(list(accepted.times_s), _FEW_CASES)
            yield accepted.select_cases(cases), session.select_cases(cases)


def _count_answers(
    pairs: Sequence[tuple[Session, Session]], *, is_few: bool
) -> Iterator[tuple[str, int, int]]:
    red = sum(judge_last_session(pair, {}).is_red for pair in pairs)
    yield "unchanged: red for any reason", red, len(pairs)
    for factor in (1.5, 2.0, 3.0):
        flagged = [
            case in judge_last_session(pair, {case: factor}).regressed_cases
            for pair in pairs
            for case in list(pair[1].times_s)[: 1 if is_few else None]
        ]
        yield f"one case at {factor:g} times its time: flagged", sum(flagged), len(flagged)
    if not is_few:
        slow = [dict.fromkeys(list(session.times_s)[::2], 3.0) for _, session in pairs]
        red = sum(judge_last_session(pair, factors).is_red for pair, factors in zip(pairs, slow))
        yield "every other size at 3 times its time: red", red, len(pairs)
