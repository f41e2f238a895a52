"""What devices count of themselves: errors, throttling, and figures that only describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .limits import NotNegative
from .words import seconds_text

# Of the time between two readings: less explains nothing.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One host's, at `at_s` of its own clock; by device and name, such as ``gpu 0 PCIe replays``.

    `errors` stay as they are unless something goes wrong; one that is left out is 0. `throttled_s`
    are the seconds of it so far, by reason, and `scores` are of throttling now, 0 for none.
    `values` only describe. `problem` says why there is nothing, or less.
    """

    host: str
    at_s: float
    errors: Mapping[str, float] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What changed while a case ran: `errors` from one number to another, and throttling."""

    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    throttled_s: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def between(cls, before: Reading, after: Reading, whose: str = "") -> Counted:
        """`whose` is put before each name, such as ``host b, ``."""
        seconds = max(0.0, after.at_s - before.at_s)
        errors = {name: (before.errors.get(name, 0.0), now) for name, now in after.errors.items()}
        gained = {
            name: now - before.throttled_s[name]
            for name, now in after.throttled_s.items()
            if name in before.throttled_s
        }
        return cls(
            errors={whose + name: both for name, both in errors.items() if both[0] != both[1]},
            throttled_s={
                whose + name: one
                for name, one in gained.items()
                if one > 0 and one >= _LEAST_SHARE * seconds
            },
            scores={whose + name: score for name, score in after.scores.items() if score > 0},
        )

    def plus(self, later: Counted) -> Counted:
        firsts = {name: before for name, (before, _) in self.errors.items()}
        errors = {name: (firsts.get(name, was), now) for name, (was, now) in later.errors.items()}
        both = [*self.throttled_s.items(), *later.throttled_s.items()]
        names = dict.fromkeys((*self.scores, *later.scores))
        return Counted(
            errors={**self.errors, **errors},
            throttled_s={name: sum(one for of, one in both if of == name) for name, _ in both},
            scores={
                name: max(self.scores.get(name, 0.0), later.scores.get(name, 0.0)) for name in names
            },
        )

    @property
    def throttling(self) -> tuple[str, ...]:
        """Such as ``gpu 0 power cap: throttled for 3.2 s``."""
        timed = (
            f"{name}: throttled for {seconds_text(one)}" for name, one in self.throttled_s.items()
        )
        return (*timed, *(f"{name} {score:g}" for name, score in self.scores.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """What changed at all."""
        return (*self.errors, *self.throttled_s, *self.scores)

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self._errors(), *self.throttling)

    def _errors(self) -> Iterator[str]:
        """Such as ``gpu 0 PCIe replays 1 -> 3``."""
        for name, (before, now) in self.errors.items():
            yield f"{name} {before:g} -> {now:g}"
