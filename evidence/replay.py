"""Recorded sessions drawn anew and put before every rule, and how often each rule alarmed.

First a session is drawn, then its launch pairs, with replacement; a pair stays a pair and brings
all its payloads, so what both sides and all payloads felt together stays together. Draws are the
same for every rule, and the same each time. A rule sees no session's id, date or injection: it
cannot know what it ought to find.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .corpus import Injection, RecordedLaunch, RecordedSession, Side, by_injection
from .shares import Interval, bootstrapped

# Pairs of a draw, for rules that ask for more launches, and launches of a session in a baseline.
LAUNCHES, BASELINE_LAUNCHES = 52, 5

# By payload in bytes, least first. Position i is the same pair of processes at every payload.
Pairs: TypeAlias = Mapping[int, tuple[RecordedLaunch, ...]]


class ReplayError(ValueError):
    """A corpus from which nothing can be drawn as asked."""


class Outcome(enum.StrEnum):
    """What a rule says of a whole session: alarm if any of its cases is slower."""

    ALARM = "alarm"
    CLEAR = "clear"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """One session to be judged: its launch pairs in the order in which they would be measured.

    A rule that compares with `baseline`, launches of other sessions, looks at the candidate alone.
    """

    pairs: Pairs
    baseline: tuple[Mapping[int, tuple[Side, ...]], ...]


Rule: TypeAlias = Callable[[Draw], Outcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """One rule's answers to one group of sessions: by session those to its replays, and as it is.

    `seed` is of the bootstrap.
    """

    replayed: Mapping[str, Counter[Outcome]]
    recorded: Mapping[str, Outcome]
    seed: str

    def share(self, outcome: Outcome) -> float:
        counts = self.replayed.values()
        return sum(one[outcome] for one in counts) / sum(one.total() for one in counts)

    @property
    def recorded_alarms(self) -> int:
        return list(self.recorded.values()).count(Outcome.ALARM)

    @property
    def replayed_interval(self) -> Interval:
        """The bootstrap's over sessions, of the replays that alarm."""
        counts = [(one[Outcome.ALARM], one.total()) for one in self.replayed.values()]
        return bootstrapped([one for one in counts if one[1]], seed=self.seed)


def replay(
    sessions: Sequence[RecordedSession],
    rules: Mapping[str, Rule],
    replays: int = 2000,
    baseline_sessions: int = 6,
) -> dict[Injection | None, dict[str, Answers]]:
    """Every rule's answers to the unchanged sessions, then to those of each injection.

    Each group is replayed `replays` times; a baseline is of `baseline_sessions` unchanged sessions.
    """
    groups = by_injection(sessions)
    if None not in groups:
        raise ReplayError("no session with unchanged code on both sides was recorded")
    urn = Urn(sessions, baseline_sessions)
    found = {}
    for injection, group in groups.items():
        # A seed for each group: another injection in the corpus changes no other's draws.
        seed = f"1 {injection}"
        chance = random.Random(seed)
        recorded = [(one.id, urn.as_recorded(one, chance)) for one in group]
        drawn = [urn.draw(group, chance) for _ in range(replays)]
        found[injection] = {
            name: _answers(rule, recorded, drawn, seed) for name, rule in rules.items()
        }
    return found


def _answers(
    rule: Rule, recorded: Sequence[tuple[str, Draw]], drawn: Sequence[tuple[str, Draw]], seed: str
) -> Answers:
    replayed = {session: Counter[Outcome]() for session, _ in recorded}
    for session, draw in drawn:
        replayed[session][rule(draw)] += 1
    as_they_are = {session: rule(draw) for session, draw in recorded}
    return Answers(replayed=replayed, recorded=as_they_are, seed=seed)


class _Laid:
    """A session laid out for drawing: its pairs by payload, and those with sides exchanged."""

    def __init__(self, session: RecordedSession) -> None:
        self.session = session
        self.pairs: dict[int, tuple[RecordedLaunch, ...]] = {}
        for payload in session.payloads:
            launches = [one for one in session.launches if one.payload_bytes == payload]
            self.pairs[payload] = tuple(sorted(launches, key=lambda one: one.number))
        self.exchanged = {
            payload: tuple(one.exchanged() for one in launches)
            for payload, launches in self.pairs.items()
        }
        self.count, self.unchanged = len(launches), session.injection is None
        # What two sessions must share for one to be the other's baseline.
        self.setting = session.framework, session.ranks, session.machine, session.payloads


class Urn:
    """Draws from one corpus; a baseline is of so many sessions."""

    def __init__(self, sessions: Sequence[RecordedSession], baseline_sessions: int) -> None:
        self._wanted = baseline_sessions
        self._all = {one.id: _Laid(one) for one in sessions}
        self._others = {name: self._other(one) for name, one in self._all.items()}

    def _other(self, judged: _Laid) -> list[_Laid]:
        """The unchanged sessions that may be the baseline of `judged`."""
        session = judged.session
        others = [
            one
            for name, one in self._all.items()
            if one.unchanged and one.setting == judged.setting and name != session.id
        ]
        if len(others) < self._wanted:
            raise ReplayError(
                f"session {session.id} has {len(others)} other unchanged sessions of "
                f"{session.framework}, {session.ranks} ranks, the same machine and payloads; its "
                f"baselines want {self._wanted}"
            )
        return others

    def draw(self, group: Sequence[RecordedSession], chance: random.Random) -> tuple[str, Draw]:
        """The id of the session drawn, and what came of it.

        The sides of a pair of unchanged code are exchangeable: in each, either may be the
        candidate. Else what a few recorded pairs have by accident would become a truth that a rule
        finds the more surely the more often it draws them.
        """
        judged = self._all[chance.choice(group).id]
        places = chance.choices(range(judged.count), k=LAUNCHES)
        sides = [
            judged.exchanged if judged.unchanged and chance.random() < 0.5 else judged.pairs
            for _ in places
        ]
        pairs = {
            payload: tuple(of[payload][place] for of, place in zip(sides, places))
            for payload in judged.pairs
        }
        return judged.session.id, self._with_baseline(judged, pairs, chance)

    def as_recorded(self, session: RecordedSession, chance: random.Random) -> Draw:
        """The session itself, with its launches in their order; only its baseline is drawn."""
        judged = self._all[session.id]
        return self._with_baseline(judged, judged.pairs, chance)

    def _with_baseline(self, judged: _Laid, pairs: Pairs, chance: random.Random) -> Draw:
        chosen = chance.sample(self._others[judged.session.id], self._wanted)
        return Draw(pairs=pairs, baseline=tuple(_stored(one, chance) for one in chosen))


def _stored(drawn: _Laid, chance: random.Random) -> dict[int, tuple[Side, ...]]:
    pairs = drawn.exchanged if chance.random() < 0.5 else drawn.pairs
    places = chance.choices(range(drawn.count), k=BASELINE_LAUNCHES)
    return {
        payload: tuple(launches[place].reference for place in places)
        for payload, launches in pairs.items()
    }
