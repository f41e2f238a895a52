"""Recorded sessions drawn anew, hierarchically, and put before every rule.

First a session is drawn, then its launch pairs, with replacement; a pair stays a pair and brings
all its payloads, so what both sides and all payloads felt together stays together. Draws are the
same for every rule, and the same each time. Decides nothing and writes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .corpus import Kind, RecordedLaunch, RecordedSession
from .draw import Draw, Pairs, Stored


class ReplayError(ValueError):
    """A corpus from which nothing can be drawn as asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """How to draw. `replays` are for the unchanged sessions, and again for each injection.

    `launches` of now: as many as were recorded if None; `further` for rules that ask for more. A
    baseline holds `baseline_launches` of each of `baseline_sessions` unchanged sessions other than
    the one that is judged.
    """

    replays: int = 2000
    launches: int | None = None
    further: int = 52
    baseline_sessions: int = 6
    baseline_launches: int = 5
    seed: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawable:
    """A session laid out for drawing: its pairs by payload, and those with sides exchanged."""

    session: RecordedSession
    pairs: Pairs
    exchanged: Pairs

    @property
    def setting(self) -> tuple[object, ...]:
        """What two sessions must share for one to be the other's baseline."""
        one = self.session
        return one.framework, one.ranks, one.machine, one.payloads


def drawable(session: RecordedSession) -> Drawable:
    """`session`, laid out."""
    pairs: dict[int, tuple[RecordedLaunch, ...]] = {}
    place = {number: index for index, number in enumerate(session.numbers)}
    for payload in session.payloads:
        launches = [one for one in session.launches if one.payload_bytes == payload]
        pairs[payload] = tuple(sorted(launches, key=lambda one: place[one.number]))
    exchanged = {
        payload: tuple(one.exchanged() for one in launches) for payload, launches in pairs.items()
    }
    return Drawable(session=session, pairs=pairs, exchanged=exchanged)


class Urn:
    """Draws from one corpus."""

    def __init__(self, sessions: Sequence[RecordedSession], scheme: Scheme) -> None:
        self.scheme = scheme
        self._all = {one.id: drawable(one) for one in sessions}
        self._unchanged = [one for one in self._all.values() if one.session.kind is Kind.AA]
        self._others = {one.session.id: self._other(one) for one in self._all.values()}

    def _other(self, judged: Drawable) -> list[Drawable]:
        """The unchanged sessions that may be the baseline of `judged`."""
        others = [
            one
            for one in self._unchanged
            if one.setting == judged.setting and one.session.id != judged.session.id
        ]
        if len(others) < self.scheme.baseline_sessions:
            raise ReplayError(
                f"session {judged.session.id} has {len(others)} other unchanged sessions of "
                f"{judged.session.framework}, {judged.session.ranks} ranks, the same machine and "
                f"payloads; its baselines want {self.scheme.baseline_sessions}"
            )
        return others

    def draws(
        self, group: Sequence[RecordedSession], chance: random.Random
    ) -> Iterator[tuple[str, Draw]]:
        """As many draws as the scheme wants: the id of the session drawn, and what came of it.

        The sides of a pair of unchanged code are exchangeable: in each, either may be the
        candidate. Else what a few recorded pairs have by accident would become a truth that a rule
        finds the more surely the more often it draws them.
        """
        for _ in range(self.scheme.replays):
            judged = self._all[chance.choice(group).id]
            count = len(judged.session.numbers)
            first = self.scheme.launches or count
            places = _places(count, max(first, self.scheme.further), chance)
            further = _taken(judged, places, chance)
            now = {payload: launches[:first] for payload, launches in further.items()}
            yield judged.session.id, self._draw(judged, now, further, chance)

    def as_recorded(self, session: RecordedSession, chance: random.Random) -> Draw:
        """The session itself, with its launches in their order; only its baseline is drawn."""
        judged = self._all[session.id]
        return self._draw(judged, judged.pairs, judged.pairs, chance)

    def _draw(self, judged: Drawable, now: Pairs, further: Pairs, chance: random.Random) -> Draw:
        chosen = chance.sample(self._others[judged.session.id], self.scheme.baseline_sessions)
        return Draw(
            framework=judged.session.framework,
            ranks=judged.session.ranks,
            now=now,
            further=further,
            baseline=tuple(self._stored(one, chance) for one in chosen),
        )

    def _stored(self, drawn: Drawable, chance: random.Random) -> Stored:
        pairs = _either(drawn, chance)
        places = _places(len(drawn.session.numbers), self.scheme.baseline_launches, chance)
        return {
            payload: tuple(launches[place].reference for place in places)
            for payload, launches in pairs.items()
        }


def _either(drawn: Drawable, chance: random.Random) -> Pairs:
    return drawn.exchanged if chance.random() < 0.5 else drawn.pairs


def _places(among: int, wanted: int, chance: random.Random) -> list[int]:
    return chance.choices(range(among), k=wanted)


def _taken(drawn: Drawable, places: Sequence[int], chance: random.Random) -> Pairs:
    """The pairs at `places`; of unchanged code each as it is or exchanged, whatever the payload."""
    unchanged = drawn.session.kind is Kind.AA
    exchanged = [unchanged and chance.random() < 0.5 for _ in places]
    return {
        payload: tuple(
            (drawn.exchanged if other else drawn.pairs)[payload][place]
            for place, other in zip(places, exchanged)
        )
        for payload in drawn.pairs
    }
