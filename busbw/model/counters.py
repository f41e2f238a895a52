"""What devices count of themselves: errors, throttling, and figures that only describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .limits import Natural, NotNegative, Positive
from .words import seconds_text

# Of the time, or of the periods of a CPU quota, between two readings: less explains nothing.
_LEAST_SHARE = 0.01

# The name of a CPU quota among the flags of an environment.
CPU_QUOTA = "CPU quota"


def quota_text(cpus: float) -> str:
    """Write a quota such as ``0.25 CPU``."""
    return f"{cpus:.4g} CPU"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """The processor time that a control group of Linux may take, and how often it was stopped.

    The group may take `cpus` seconds of processor time in a second. In each period of `period_s`
    seconds it runs until its share is used up, and is stopped for the rest: it was throttled.
    Periods are counted only while the group has work. `throttled_s` adds up what each processor of
    the group was stopped for.
    """

    cpus: Positive
    period_s: Positive
    periods: Natural
    throttled_periods: Natural
    throttled_s: NotNegative

    @property
    def stopped_s(self) -> float:
        """The most seconds for which all of the group can have been stopped."""
        return min(self.throttled_s, self.throttled_periods * self.period_s)

    @property
    def text(self) -> str:
        """Such as ``throttled in 677 of 1,200 periods, 12.3 s, quota 0.25 CPU``."""
        return (
            f"throttled in {self.throttled_periods:,} of {self.periods:,} periods, "
            f"{seconds_text(self.throttled_s, 3)}, quota {quota_text(self.cpus)}"
        )

    def since(self, before: Quota) -> Quota:
        """Return the counts since `before`; none where the group was made anew meanwhile."""
        return replace(
            self,
            periods=max(0, self.periods - before.periods),
            throttled_periods=max(0, self.throttled_periods - before.throttled_periods),
            throttled_s=max(0.0, self.throttled_s - before.throttled_s),
        )

    def plus(self, other: Quota) -> Quota:
        """Return the counts of both, with this quota."""
        return replace(
            self,
            periods=self.periods + other.periods,
            throttled_periods=self.throttled_periods + other.throttled_periods,
            throttled_s=self.throttled_s + other.throttled_s,
        )

    @property
    def is_throttled(self) -> bool:
        """Whether the group was stopped in more than a few of the periods."""
        few = max(1.0, _LEAST_SHARE * self.periods)
        return self.throttled_s > 0 and self.throttled_periods >= few


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One host's, at `at_s` of its own clock; by device and name, such as ``gpu 0 PCIe replays``.

    `errors` stay as they are unless something goes wrong; one that is left out is 0. `throttled_s`
    are the seconds of it so far, by reason, and `scores` are of throttling now, 0 for none.
    `values` only describe. `quotas` are CPU quotas by the folder of their control group. `problem`
    says why there is nothing, or less.
    """

    host: str
    at_s: float
    errors: Mapping[str, float] = field(default_factory=dict)
    throttled_s: Mapping[str, NotNegative] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What changed while a case ran: `errors` from one number to another, and throttling.

    `quotas` has, by what is put before the names of a host, the CPU quota by which its kernel
    stopped the case most often, if in more than a few periods.
    """

    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    throttled_s: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)

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
        quotas = [
            now.since(before.quotas[folder])
            for folder, now in after.quotas.items()
            if folder in before.quotas
        ]
        worst = max(quotas, key=lambda quota: quota.throttled_periods, default=None)
        return cls(
            errors={whose + name: both for name, both in errors.items() if both[0] != both[1]},
            throttled_s={
                whose + name: one
                for name, one in gained.items()
                if one > 0 and one >= _LEAST_SHARE * seconds
            },
            scores={whose + name: score for name, score in after.scores.items() if score > 0},
            quotas={whose: worst} if worst is not None and worst.is_throttled else {},
        )

    def plus(self, later: Counted) -> Counted:
        firsts = {name: before for name, (before, _) in self.errors.items()}
        errors = {name: (firsts.get(name, was), now) for name, (was, now) in later.errors.items()}
        both = [*self.throttled_s.items(), *later.throttled_s.items()]
        names = dict.fromkeys((*self.scores, *later.scores))
        added = {
            whose: quota.plus(self.quotas[whose]) if whose in self.quotas else quota
            for whose, quota in later.quotas.items()
        }
        return Counted(
            errors={**self.errors, **errors},
            throttled_s={name: sum(one for of, one in both if of == name) for name, _ in both},
            scores={
                name: max(self.scores.get(name, 0.0), later.scores.get(name, 0.0)) for name in names
            },
            quotas={**self.quotas, **added},
        )

    @property
    def stopped_s(self) -> float:
        """The most seconds for which CPU quotas can have stopped the case."""
        return sum(one.stopped_s for one in self.quotas.values())

    @property
    def throttling(self) -> tuple[str, ...]:
        """Such as ``gpu 0 power cap: throttled for 3.2 s``."""
        timed = (
            f"{name}: throttled for {seconds_text(one)}" for name, one in self.throttled_s.items()
        )
        scored = (f"{name} {score:g}" for name, score in self.scores.items())
        return (*timed, *scored, *(f"{whose}{one.text}" for whose, one in self.quotas.items()))

    @property
    def is_device_throttled(self) -> bool:
        """Whether a device was slower than it can be, whatever CPU quotas did."""
        return bool(self.throttled_s or self.scores)

    @property
    def names(self) -> tuple[str, ...]:
        """What changed at all."""
        quotas = (f"{whose}{CPU_QUOTA}" for whose in self.quotas)
        return (*self.errors, *self.throttled_s, *self.scores, *quotas)

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self._errors(), *self.throttling)

    def _errors(self) -> Iterator[str]:
        """Such as ``gpu 0 PCIe replays 1 -> 3``."""
        for name, (before, now) in self.errors.items():
            yield f"{name} {before:g} -> {now:g}"
