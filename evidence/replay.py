"""What rules answer to the draws: counts by session, and the shares and intervals of them.

One group of sessions is unchanged on both sides, then there is one for each injection. Rules are
handed in; nothing is written here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .corpus import Injection, RecordedSession, by_injection
from .draw import Outcome, Rule
from .intervals import Interval, bootstrapped, clopper_pearson
from .resample import ReplayError, Scheme, Urn


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionCount:
    """What became of one session's replays, and of the session as it was recorded."""

    session: str
    replays: int
    alarms: int
    undecided: int
    recorded: Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupReplay:
    """One rule's answers to one group of sessions; `injection` is None for the unchanged ones."""

    injection: Injection | None
    counts: tuple[SessionCount, ...]

    @property
    def alarm_share(self) -> float:
        """The share of replays in which any case alarmed."""
        return sum(one.alarms for one in self.counts) / self._replays

    @property
    def undecided_share(self) -> float:
        """The share of replays that ended undecided."""
        return sum(one.undecided for one in self.counts) / self._replays

    @property
    def recorded_alarms(self) -> int:
        """How many sessions alarm as they were recorded."""
        return sum(one.recorded is Outcome.ALARM for one in self.counts)

    @property
    def recorded_interval(self) -> Interval:
        """Clopper and Pearson's, of the sessions as recorded: each counts once."""
        return clopper_pearson(self.recorded_alarms, len(self.counts))

    def replayed_interval(self, *, seed: int) -> Interval:
        """The bootstrap's over sessions, of the replays."""
        drawn = [(one.alarms, one.replays) for one in self.counts if one.replays]
        return bootstrapped(drawn, seed=f"{seed} {self.injection}")

    @property
    def _replays(self) -> int:
        return sum(one.replays for one in self.counts)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleReplay:
    """One rule's answers: false alarms come from `unchanged`, power from `injected`."""

    rule: str
    unchanged: GroupReplay
    injected: tuple[GroupReplay, ...]


def replay(
    sessions: Sequence[RecordedSession], rules: Mapping[str, Rule], *, scheme: Scheme
) -> tuple[RuleReplay, ...]:
    """Every rule's answers, in the order of `rules`."""
    groups = by_injection(sessions)
    if None not in groups:
        raise ReplayError("no session with unchanged code on both sides was recorded")
    urn = Urn(sessions, scheme)
    found = {
        injection: _group(urn, group, rules=rules, injection=injection)
        for injection, group in groups.items()
    }
    return tuple(
        RuleReplay(
            rule=name,
            unchanged=found[None][name],
            injected=tuple(one[name] for injection, one in found.items() if injection),
        )
        for name in rules
    )


def _group(
    urn: Urn,
    group: Sequence[RecordedSession],
    *,
    rules: Mapping[str, Rule],
    injection: Injection | None,
) -> dict[str, GroupReplay]:
    # A seed of its own for each group: another injection in the corpus changes no other's draws.
    chance = random.Random(f"{urn.scheme.seed} {injection}")
    recorded = {one.id: urn.as_recorded(one, chance) for one in group}
    answers: dict[str, Counter[tuple[str, Outcome]]] = {name: Counter() for name in rules}
    for session, draw in urn.draws(group, chance):
        for name, rule in rules.items():
            answers[name][session, rule(draw)] += 1
    return {
        name: GroupReplay(
            injection=injection,
            counts=tuple(
                _count(session, answers[name], rule(draw)) for session, draw in recorded.items()
            ),
        )
        for name, rule in rules.items()
    }


def _count(session: str, answers: Counter[tuple[str, Outcome]], recorded: Outcome) -> SessionCount:
    return SessionCount(
        session=session,
        replays=sum(answers[session, outcome] for outcome in Outcome),
        alarms=answers[session, Outcome.ALARM],
        undecided=answers[session, Outcome.UNDECIDED],
        recorded=recorded,
    )
