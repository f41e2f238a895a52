"""Simulated sessions of a dedicated device: each measures all cases, three launches each."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from busbw.judge.decision import SpeedChangeDecision, decide_speed_change
from busbw.judge.levels import EarlierSessions, StoredTimes, collect_earlier_sessions
from busbw.judge.policy import Policy
from busbw.judge.series import CaseTimes
from busbw.model.case import Case
from busbw.model.field_types import moment_text
from busbw.model.stored import Baseline, Record, StoredSession
from tests.helpers import build

FIRST = datetime(2026, 1, 2, 3, tzinfo=UTC)
SIZES = tuple(1024 << power for power in range(21))


def cases(count: int = len(SIZES), **changes: Any) -> list[Case]:
    """Return as many sizes of one collective."""
    return [build.case(payload_bytes=size, **changes) for size in SIZES[:count]]


def session(
    day: float,
    times_s: Mapping[Case, Sequence[float]],
    *,
    has_change: bool = False,
    surroundings: Mapping[str, str] = {},
) -> StoredSession:
    """Return a session that began so many days after the first, with the given times."""
    began = FIRST + timedelta(days=day)
    fields = {"moment": moment_text(began), "versions": {}, "surroundings": surroundings}
    records = {case: build.session(*launches, **fields) for case, launches in times_s.items()}
    return replace(StoredSession.from_records(records, has_change=has_change), began=began)


def retimed(
    before: StoredSession, times_s: Mapping[Case, Sequence[float]], **changes: Any
) -> StoredSession:
    """Return a session of the same moment with other times."""
    return replace(session(0, times_s, **changes), began=before.began)


class Device:
    """A device on which case c takes a millisecond and a little, times a factor.

    The standard deviations in log time are those of a case in a session (`residual`), of what all
    cases of a session share (`shared`), and of a launch.
    """

    def __init__(
        self,
        seed: int,
        *,
        measured: Sequence[Case] | None = None,
        residual: float = 0.005,
        shared: float = 0.003,
        launch: float = 0.002,
    ) -> None:
        self.cases = list(cases() if measured is None else measured)
        self._chance = random.Random(seed)
        self._residual, self._shared, self._launch = residual, shared, launch

    def session(
        self,
        day: int,
        slower: Mapping[Case, float] | float = 1.0,
        launches: int = 3,
        **changes: Any,
    ) -> StoredSession:
        """Draw one session, in which some cases or all are `slower` by a factor."""
        shift = self._chance.gauss(0, self._shared)
        times_s = {}
        for number, case in enumerate(self.cases):
            factor = slower if isinstance(slower, float) else slower.get(case, 1.0)
            level = math.log(1e-3 * (1 + number) * factor)
            mean = level + shift + self._chance.gauss(0, self._residual)
            times_s[case] = [
                math.exp(mean + self._chance.gauss(0, self._launch)) for _ in range(launches)
            ]
        return session(day, times_s, **changes)

    def sessions(self, count: int, first: int = 0, **changes: Any) -> list[StoredSession]:
        """Draw unchanged sessions, a day apart."""
        return [self.session(first + number, **changes) for number in range(count)]


def accepted(first: StoredSession, **changes: Any) -> list[Baseline]:
    """Return the baselines of an accepted session."""
    return [
        build.pooled(
            stored(first, case),
            **{**changes, "payload_bytes": case.payload_bytes, "framework": case.framework},
        )
        for case in first.records
    ]


def stored(first: StoredSession, case: Case) -> Record:
    """Return the only record of `case` in a session."""
    (record,) = first.records[case]
    return record


def levels(sessions: Sequence[StoredSession], policy: Policy, **fields: Any) -> Any:
    """Return the levels if the first session was accepted and the others are in the history.

    They are typed so that a test needs no check for None.
    """
    times = StoredTimes(baselines=accepted(sessions[0]), history=sessions[1:], **fields)
    return collect_earlier_sessions([times], policy)


def decide_all(
    levels: EarlierSessions,
    today: StoredSession,
    policy: Policy,
    slower_above_log_ratio: float | None = None,
) -> dict[Case, SpeedChangeDecision]:
    """Decide every case of today, of which three launches were planned; the others confirm."""
    today_s = today.times_s
    decisions: dict[Case, SpeedChangeDecision] = {}
    count = dict.fromkeys(today_s, 3)
    while True:
        times_s = {case: launches[: count[case]] for case, launches in today_s.items()}
        for case, limit in levels.assess_session(
            times_s, policy, planned_launch_count=3
        ).limits.items():
            most = (
                limit.slower_above_log_ratio
                if slower_above_log_ratio is None
                else slower_above_log_ratio
            )
            times = CaseTimes.split(times_s[case], policy.rule, 3)
            decisions[case] = decide_speed_change(times, limit, policy.rule, most)
        undecided = [
            case
            for case, decision in decisions.items()
            if decision.direction is None and len(today_s[case]) >= 6
        ]
        if not undecided:
            return decisions
        count.update(dict.fromkeys(undecided, 6))
