"""The values of a session: each step makes one of them from the value before, and none changes.

Collected → Observed → Judged. What is timed is Measured, a kind of Observed; an extension that does
something else has a kind of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from busbw.model.verdict import Reference, SessionVerdict, SizeGroup, Verdict
from busbw.report.table import Table

from .options import Options


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """The options, and the grid of the tests collected so far. The session `began` in UTC."""

    options: Options
    grid: tuple[Spec, ...] = ()
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def date(self) -> str:
        return self.began.date().isoformat()


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The devices to measure on, and the probes; `references` are probes of the other stack."""

    target: Target
    probes: tuple[Probe, ...]
    references: tuple[Probe, ...] = ()

    @property
    def process_hosts(self) -> tuple[str, ...]:
        return next((probe.hosts for probe in self.probes if probe.hosts), ())


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedJob:
    """A case to measure, and what it is compared with; nothing if two stacks are interleaved."""

    case: Case
    key: EnvironmentKey
    stored: BaselineSearch = field(default_factory=BaselineSearch)
    published: Reference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What was observed so far of the selected `specs`; those that are `skipped` have verdicts."""

    collected: Collected
    specs: tuple[Spec, ...]
    skipped: Mapping[Spec, Verdict]
    notes: tuple[str, ...] = ()

    @property
    def options(self) -> Options:
        return self.collected.options


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured(Observed):
    """The jobs of a session, and what was measured of them, to the end or `interrupted`.

    `levels` are those of every machine with baselines that jobs are measured on. `references` are
    measurements of the other stack. `lost` names a host that was lost. `extra` has the values of
    extensions by name.
    """

    jobs: Mapping[Spec, TimedJob]
    machine: Machine
    environment: Environment
    plan: Plan
    levels: Mapping[EnvironmentKey, Levels] = field(default_factory=dict)
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""
    interrupted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_paired(self) -> bool:
        return self.options.is_paired

    @property
    def policy(self) -> Policy:
        return POLICIES[self.machine.target.device]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The verdicts and, at the end, what was written and what could not be written.

    `observed` is None if no machine was found. `groups` are the curves over the payloads of each
    kind of case. `moved` cases left their level. `changes` are tables
    of the baselines that were written. `exit_code` is that of the session if it does not follow
    from the verdicts. `since` says since which session of the history the failed cases fail, and
    what changed in the stack then.
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
    def options(self) -> Options:
        return self.collected.options

    def with_notes(self, *notes: str) -> Judged:
        return replace(self, notes=(*self.notes, *notes))

    def with_error(self, error: str) -> Judged:
        return replace(self, errors=(*self.errors, error))
