"""The state of a session, phase by phase: each value is made of the one before, and none changes.

Collected → Observed → Judged. What is timed is Measured, a kind of Observed; an extension that does
something else has a kind of its own. Whoever runs a session holds the last value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from busbw.baselines.store import BaselineSearch
from busbw.grid import Target
from busbw.judge.levels import Levels
from busbw.judge.policy import POLICIES, Policy
from busbw.model.case import Case, Spec
from busbw.model.launch import Measurement, Plan
from busbw.model.machine import Environment, EnvironmentKey, Probe
from busbw.model.stored import Session
from busbw.model.verdict import Reference, SessionVerdict, SizeGroup, Verdict
from busbw.report.table import Table

from .settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """The options ask for what cannot be; `error` is the usage error that says so."""

    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What the options ask for, and the grid of the tests collected so far; `error`: its problem.

    `began` is when the session began, UTC.
    """

    settings: Settings
    grid: tuple[Spec, ...] = ()
    error: str = ""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def date(self) -> str:
        return self.began.date().isoformat()


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What the probes found; `references` are the probes of the reference stack."""

    target: Target
    probes: tuple[Probe, ...]
    references: tuple[Probe, ...] = ()

    @property
    def process_hosts(self) -> tuple[str, ...]:
        return next((one.hosts for one in self.probes if one.hosts), ())


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedJob:
    """A case that is measured, and what it is compared with.

    `stored` and `published` are empty where two stacks are compared with each other.
    """

    case: Case
    key: EnvironmentKey
    stored: BaselineSearch = field(default_factory=BaselineSearch)
    published: Reference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What was observed so far of the selected `specs`; those that are `skipped` are left out."""

    collected: Collected
    specs: tuple[Spec, ...]
    skipped: Mapping[Spec, Verdict]
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        return self.collected.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured(Observed):
    """What is measured, how hard and on which machine, and what was, to the end or `interrupted`.

    `levels` are those of every machine with baselines where a job is measured, `nights` what the
    locked reference stack of a framework took in earlier sessions. `references` are measurements of
    the other stack; `lost` says which host was lost. `wrong_before` are cases that gave a wrong
    value not long ago, and when: they are measured twice as often. `extra` has the values of
    extensions by name.
    """

    jobs: Mapping[Spec, TimedJob]
    machine: Machine
    environment: Environment
    plan: Plan
    levels: Mapping[EnvironmentKey, Levels] = field(default_factory=dict)
    nights: Mapping[tuple[EnvironmentKey, str], Sequence[Session] | None] = field(
        default_factory=dict
    )
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""
    interrupted: bool = False
    wrong_before: Mapping[Case, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def paired(self) -> bool:
        return self.settings.against is not None

    @property
    def policy(self) -> Policy:
        return POLICIES[self.machine.target.device]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The verdicts and, at the end, what was written and what could not be.

    `observed` is None where the probe was cut short; `moved` cases left their level. `changes` are
    tables of the baselines that were written. `exit_code` is what the session ends with, if not
    with what its verdicts say. `since` says since which session of the history the failed cases
    fail, and what changed in the stack then.
    """

    collected: Collected
    session: SessionVerdict
    verdicts: Mapping[Spec, Verdict] = field(default_factory=dict)
    observed: Observed | None = None
    groups: tuple[SizeGroup, ...] = ()
    moved: frozenset[Case] = frozenset()
    notes: tuple[str, ...] = ()
    changes: tuple[Table, ...] = ()
    errors: tuple[str, ...] = ()
    exit_code: int | None = None
    since: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        return self.collected.settings

    def with_notes(self, *notes: str) -> Judged:
        return replace(self, notes=(*self.notes, *notes))

    def with_error(self, error: str) -> Judged:
        return replace(self, errors=(*self.errors, error))
