"""Judge recorded sessions of unchanged code against one another.

Each session in turn is accepted, and each later one is judged against it: alone, as on the first
day after a baseline was made, or with sessions that were recorded between the two. The files are
what `--history` appends. A session counts if it has six launches or more. A baseline and a session
of the history get three of them; the session that is judged has three, and three more that confirm
a suspicion. These are the launches of a session of three that began within some minutes, or else
the last three of more than six, because a suspicion is confirmed later. If no session has later
launches, the next three confirm at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from busbw.history.files import read_all_machines
from busbw.history.lines import Line
from busbw.judge.levels import build_history
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes
from busbw.model.case import Case
from busbw.model.words import Device, plural

from .session import LAUNCHES, Judged, Times, judge
from .shares import interval, percent, row

_SOON = timedelta(minutes=4)
# Rows of few sizes judge so many drawn sizes of each pair of sessions, so many times.
_FEW, _DRAWS = 3, 20
# How many sessions lie between the accepted session and the judged one, and how many such choices
# of recorded sessions are drawn at most.
_BETWEEN, _CHOICES = (1, 2, 5), 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """When a session began, on what, its launches by case, and the launches that confirm."""

    began: datetime
    device: Device
    times_s: Times
    confirming_s: Times

    def only(self, cases: Sequence[Case]) -> Session:
        times_s = {case: self.times_s[case] for case in cases}
        return replace(
            self,
            times_s=times_s,
            confirming_s={case: self.confirming_s[case] for case in cases},
        )


def read(folder: Path) -> list[Session]:
    """Read the sessions that have enough launches of every case, oldest first.

    If some of them have later launches, only these sessions are returned.
    """
    by_session: dict[str, list[Line]] = {}
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
            confirming_s = last if fewest > 2 * LAUNCHES else {}
            sessions.append(
                Session(began=began, device=device, times_s=times_s, confirming_s=confirming_s)
            )
        elif sessions and began - sessions[-1].began < _SOON:
            sessions[-1] = replace(sessions[-1], confirming_s=times_s)
    return [session for session in sessions if session.confirming_s] or [
        replace(session, confirming_s={case: s[LAUNCHES:] for case, s in session.times_s.items()})
        for session in sessions
    ]


def judged(sessions: Sequence[Session], slower: Mapping[Case, float]) -> Judged:
    """Judge the last session; the first session was accepted, and others lie between the two.

    `slower` has factors of the cases' times in the last session.
    """
    accepted, *_, session = sessions
    times_s = {
        case: tuple(
            slower.get(case, 1.0) * launch_s
            for launch_s in (*launches[:LAUNCHES], *session.confirming_s[case])
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
    return judge(build_history(stored, policy, measured=times_s), times_s, policy)


def rows(sessions: Sequence[Session]) -> Iterator[str]:
    """Yield the table: first for all sizes, then with sessions between, then for few sizes."""
    yield row("sizes", "question", "answers", "share (95 %)")
    yield row(*["---"] * 4)
    whole, count = list(itertools.combinations(sessions, 2)), len(sessions[0].times_s)
    answers = [(count, *answer) for answer in _answers(whole, is_few=False)]
    for between in (count for count in _BETWEEN if count + 2 <= len(sessions)):
        choices = list(itertools.combinations(sessions, between + 2))
        if len(choices) > _CHOICES:
            choices = random.Random(1).sample(choices, _CHOICES)
        question = f"unchanged, after {plural(between, 'more session')}: red for any reason"
        red = sum(judged(choice, {}).is_red for choice in choices)
        answers.append((count, question, red, len(choices)))
    answers += [(_FEW, *answer) for answer in _answers(list(_few(whole)), is_few=True)]
    for sizes, question, hits, among in answers:
        lower, upper = map(percent, interval(hits, among, "exact"))
        share = f"{percent(hits / among)} ({lower} to {upper})"
        yield row(str(sizes), question, f"{hits} of {among}", share)


def _few(pairs: Sequence[tuple[Session, Session]]) -> Iterator[tuple[Session, Session]]:
    """Draw a few sizes of each pair of sessions, several times."""
    generator = random.Random(1)
    for accepted, session in pairs:
        for _ in range(_DRAWS):
            cases = generator.sample(list(accepted.times_s), _FEW)
            yield accepted.only(cases), session.only(cases)


def _answers(
    pairs: Sequence[tuple[Session, Session]], *, is_few: bool
) -> Iterator[tuple[str, int, int]]:
    red = sum(judged(pair, {}).is_red for pair in pairs)
    yield "unchanged: red for any reason", red, len(pairs)
    for factor in (1.5, 2.0, 3.0):
        flagged = [
            case in judged(pair, {case: factor}).red
            for pair in pairs
            for case in list(pair[1].times_s)[: 1 if is_few else None]
        ]
        yield f"one case at {factor:g} times its time: flagged", sum(flagged), len(flagged)
    if not is_few:
        slow = [dict.fromkeys(list(session.times_s)[::2], 3.0) for _, session in pairs]
        red = sum(judged(pair, factors).is_red for pair, factors in zip(pairs, slow))
        yield "every other size at 3 times its time: red", red, len(pairs)
