"""Nights of a device of one's own, simulated: each measures all cases, three launches each."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from busbw.judge.levels import Levels, StoredTimes, build_levels
from busbw.judge.policy import Policy
from busbw.judge.rule import CaseTimes, Decision, decide
from busbw.model.case import Case
from busbw.model.limits import moment_text
from busbw.model.stored import Baseline, Record, Session
from busbw.model.words import Outcome
from tests.helpers import build

FIRST = datetime(2026, 1, 2, 3, tzinfo=UTC)
SIZES = tuple(1024 << power for power in range(21))


def cases(count: int = len(SIZES), **changes: Any) -> list[Case]:
    """As many sizes of one collective."""
    return [build.case(payload_bytes=size, **changes) for size in SIZES[:count]]


def session(
    at: float,
    times_s: Mapping[Case, Sequence[float]],
    *,
    regressed: Collection[Case] = (),
    improved: Collection[Case] = (),
    surroundings: Mapping[str, str] = {},
) -> Session:
    """The session of the night `at` days after the first."""
    began = FIRST + timedelta(days=at)
    own = {"at": moment_text(began), "versions": {}, "surroundings": surroundings}
    found = {case: build.session(*each, **own) for case, each in times_s.items()}
    for outcome, those in ((Outcome.REGRESSED, regressed), (Outcome.IMPROVED, improved)):
        found |= {case: replace(found[case], outcome=outcome) for case in those}
    return replace(Session.of(found), began=began)


def on_stack(one: Session, surroundings: Mapping[str, str]) -> Session:
    """The same times on another stack."""
    return retimed(one, one.times_s, surroundings=surroundings)


def retimed(one: Session, times_s: Mapping[Case, Sequence[float]], **changes: Any) -> Session:
    """Other times in the same night."""
    return replace(session(0, times_s, **changes), began=one.began)


class Device:
    """What sessions on one device take: case c a millisecond and a little, times what differs.

    `own` and `shared` are the standard deviations of both parts, `within` that of launches.
    """

    def __init__(
        self,
        seed: int,
        *,
        measured: Sequence[Case] | None = None,
        own: float = 0.005,
        shared: float = 0.003,
        within: float = 0.002,
    ) -> None:
        self.cases = list(cases() if measured is None else measured)
        self._chance = random.Random(seed)
        self._own, self._shared, self._within = own, shared, within

    def night(
        self, at: int, slower: Mapping[Case, float] | float = 1.0, launches: int = 3, **changes: Any
    ) -> Session:
        """One session, some or all cases of it `slower` by a factor."""
        off = self._chance.gauss(0, self._shared)
        times_s = {}
        for number, case in enumerate(self.cases):
            factor = slower if isinstance(slower, float) else slower.get(case, 1.0)
            level = math.log(1e-3 * (1 + number) * factor)
            mean = level + off + self._chance.gauss(0, self._own)
            times_s[case] = [
                math.exp(mean + self._chance.gauss(0, self._within)) for _ in range(launches)
            ]
        return session(at, times_s, **changes)

    def nights(self, count: int, first: int = 0, **changes: Any) -> list[Session]:
        """Unchanged ones, one after the other."""
        return [self.night(first + at, **changes) for at in range(count)]


def accepted(one: Session, **changes: Any) -> list[Baseline]:
    """The baselines that a session left."""
    return [build.pooled(stored(one, case), **changes | _own(case)) for case in one.records]


def stored(one: Session, case: Case) -> Record:
    """What it left of `case`."""
    (found,) = one.records[case]
    return found


def _own(case: Case) -> dict[str, Any]:
    return {"payload_bytes": case.payload_bytes, "framework": case.framework}


def levels(sessions: Sequence[Session], policy: Policy, **known: Any) -> Levels:
    """The first session became the baseline, and the others are the history."""
    found = StoredTimes(baselines=accepted(sessions[0]), history=sessions[1:], **known)
    levels = build_levels({"jax": found}, policy)
    assert levels is not None
    return levels


def called(known: Levels, today: Session, policy: Policy, **given: Any) -> dict[Case, Decision]:
    """Every case of today, whose first three launches were asked for; the others confirm."""
    today_s = today.times_s
    found: dict[Case, Decision] = {}
    count = dict.fromkeys(today_s, 3)
    while True:
        times_s = {case: one[: count[case]] for case, one in today_s.items()}
        tonight = known.assess(times_s, policy, launches=3)
        for case, limit in tonight.limits.items():
            most = given.get("most", limit.slower)
            times = CaseTimes.split(times_s[case], policy.rule, 3)
            found[case] = decide(times, limit, policy.rule, most)
        undecided = [
            case
            for case, decision in found.items()
            if decision.direction is None and len(today_s[case]) >= 6
        ]
        if not undecided:
            return found
        count.update(dict.fromkeys(undecided, 6))
