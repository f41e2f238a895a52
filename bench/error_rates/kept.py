"""Judge recorded sessions of unchanged code against one another.

Each session in turn is accepted, and each later one is judged against it alone, as on the first day
after a baseline was made. The files are what `--history` appends. A session counts if it has six
launches or more. A baseline gets three of them; the session that is judged has three, and three
fresh ones for a suspicion: the next three at once, or later ones. Later launches are those of a
session of three that began within some minutes, or else the last three of more than six.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from busbw.history.files import read_all
from busbw.history.lines import Line
from busbw.judge.levels import build_history
from busbw.judge.policy import POLICIES
from busbw.judge.rule import CaseTimes
from busbw.model.case import Case
from busbw.model.words import Device

from .session import LAUNCHES, Judged, Times, judge
from .shares import interval, percent, row

_SOON = timedelta(minutes=4)
# Rows of few sizes judge so many drawn sizes of each pair of sessions, so many times.
_FEW, _DRAWS = 3, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """When a session began, on what, its launches by case, and launches some minutes later."""

    began: datetime
    device: Device
    times_s: Times
    later_s: Times

    def only(self, cases: Sequence[Case]) -> Session:
        times_s = {case: self.times_s[case] for case in cases}
        return replace(self, times_s=times_s, later_s={case: self.later_s[case] for case in cases})


def read(folder: Path) -> list[Session]:
    """Read the sessions that have enough launches of every case, oldest first."""
    by_session: dict[str, list[Line]] = {}
    for machine in read_all(folder).values():
        for line in machine:
            by_session.setdefault(line.session, []).append(line)
    sessions: list[Session] = []
    for lines in sorted(by_session.values(), key=lambda lines: lines[0].began):
        began, device = lines[0].began, lines[0].device
        times_s = {line.case: tuple(us / 1e6 for us in line.times_us) for line in lines}
        fewest = min(map(len, times_s.values()))
        if fewest >= 2 * LAUNCHES:
            last = {case: launches[-LAUNCHES:] for case, launches in times_s.items()}
            later_s = last if fewest > 2 * LAUNCHES else {}
            sessions.append(Session(began=began, device=device, times_s=times_s, later_s=later_s))
        elif sessions and began - sessions[-1].began < _SOON:
            sessions[-1] = replace(sessions[-1], later_s=times_s)
    return [session for session in sessions if session.later_s]


def judged(
    accepted: Session, session: Session, slower: Mapping[Case, float], *, later: bool = False
) -> Judged:
    """Judge `session` against one accepted session; `slower` has factors of cases' times.

    With `later` the later launches confirm a suspicion.
    """
    times_s = dict(session.times_s)
    if later:
        fresh = session.later_s
        times_s = {case: (*first[:LAUNCHES], *fresh[case]) for case, first in times_s.items()}
    times_s = {
        case: tuple(slower.get(case, 1.0) * launch_s for launch_s in launches)
        for case, launches in times_s.items()
        if case in accepted.times_s
    }
    policy = POLICIES[session.device]
    stored = {
        case: CaseTimes.split(launches[:LAUNCHES], policy.rule)
        for case, launches in accepted.times_s.items()
    }
    return judge(build_history([stored], policy, measured=times_s), times_s, policy)


def rows(sessions: Sequence[Session]) -> Iterator[str]:
    """Yield the table: first for all sizes, then for few."""
    yield row("sizes", "fresh launches", "question", "answers", "share (95 %)")
    yield row(*["---"] * 5)
    whole = list(itertools.combinations(sessions, 2))
    for is_few, pairs in ((False, whole), (True, list(_few(whole)))):
        for later in (False, True):
            for question, hits, among in _answers(pairs, later=later, is_few=is_few):
                lower, upper = map(percent, interval(hits, among, "exact"))
                yield row(
                    str(len(pairs[0][0].times_s)),
                    "later" if later else "at once",
                    question,
                    f"{hits} of {among}",
                    f"{percent(hits / among)} ({lower} to {upper})",
                )


def _few(pairs: Sequence[tuple[Session, Session]]) -> Iterator[tuple[Session, Session]]:
    """Draw a few sizes of each pair of sessions, several times."""
    generator = random.Random(1)
    for accepted, session in pairs:
        for _ in range(_DRAWS):
            cases = generator.sample(list(accepted.times_s), _FEW)
            yield accepted.only(cases), session.only(cases)


def _answers(
    pairs: Sequence[tuple[Session, Session]], *, later: bool, is_few: bool
) -> Iterator[tuple[str, int, int]]:
    red = sum(judged(*pair, {}, later=later).is_red for pair in pairs)
    yield "unchanged: red for any reason", red, len(pairs)
    for factor in (1.5, 2.0, 3.0):
        flagged = [
            case in judged(*pair, {case: factor}, later=later).red
            for pair in pairs
            for case in list(pair[1].times_s)[: 1 if is_few else None]
        ]
        yield f"one case at {factor:g} times its time: flagged", sum(flagged), len(flagged)
    if not is_few:
        slow = [dict.fromkeys(list(session.times_s)[::2], 3.0) for _, session in pairs]
        red = sum(judged(*pair, factors, later=later).is_red for pair, factors in zip(pairs, slow))
        yield "every other size at 3 times its time: red", red, len(pairs)
