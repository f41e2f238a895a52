"""The state of a session, phase by phase: each value is made of the one before, and none changes.

Collected → Resolved → Observed → Judged → Written. What is timed and what is compiled are two kinds
of Resolved and Observed: TimedResolved and Measured, ProgramsResolved and Programs. Whoever runs a
session holds the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from busbw.baselines.store import FoundBaseline
from busbw.baselines.updates import Change
from busbw.grid import Target
from busbw.judge.levels import Levels
from busbw.judge.session import SizeGroup
from busbw.model.case import Case, Spec
from busbw.model.launch import Compiled, Failure, Measurement, Plan
from busbw.model.machine import Compiler, Environment, EnvironmentKey, Probe, Topology
from busbw.model.stored import CompiledBaseline, Session
from busbw.model.verdict import Reference, SessionVerdict, Verdict
from busbw.stacks.interpreter import Distribution, Installed

from .settings import Settings

# Levels are of one framework on one machine.
LevelKey = tuple[EnvironmentKey, str]

# By the compiler's label and the topology's name.
Described = Mapping[tuple[str, str], Compiler]


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """The options ask for what cannot be; `error` is the usage error that says so."""

    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lockable:
    """An interpreter, and the `stack` of a framework in it, to be locked if it is accepted."""

    python: str
    installed: Installed
    stack: tuple[Distribution, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What the options ask for, and the grid of the tests collected so far; `error`: its problem.

    `nothing_asked`: a test had nothing of what is asked for. `lockable` are stacks by framework
    that were looked at already, None where nothing will be locked. `began` is when the session did,
    UTC.
    """

    settings: Settings
    grid: tuple[Spec, ...] = ()
    error: str = ""
    nothing_asked: bool = False
    lockable: Mapping[str, Lockable | None] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

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
class Job:
    """A case, and where: a machine of ours, or a topology and its compiler."""

    case: Case
    key: EnvironmentKey


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedJob(Job):
    """A case that is measured, and what it is compared with.

    `slice_key` has the shape of the slice. `stored` and `published` are empty where two stacks are
    compared with each other.
    """

    slice_key: EnvironmentKey
    stored: FoundBaseline = field(default_factory=FoundBaseline)
    published: Reference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """What is measured or compiled of the selected `specs`, and what is left out."""

    collected: Collected
    specs: tuple[Spec, ...]
    jobs: Mapping[Spec, Job]
    skipped: Mapping[Spec, Verdict]

    @property
    def settings(self) -> Settings:
        return self.collected.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedResolved(Resolved):
    """What is measured, how hard, and on which machine.

    `levels` are those of every machine with baselines where a job is measured, `lockable` the
    stacks by framework where new baselines lock them, `nights` what the locked reference stacks
    took in earlier nights.
    """

    jobs: Mapping[Spec, TimedJob]
    machine: Machine
    environment: Environment
    plan: Plan
    levels: Mapping[EnvironmentKey, Levels] = field(default_factory=dict)
    lockable: Mapping[str, Lockable] = field(default_factory=dict)
    nights: Mapping[LevelKey, Sequence[Session] | None] = field(default_factory=dict)
    examples: str = ""
    stored_frameworks: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def paired(self) -> bool:
        return self.settings.against is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What was observed so far, `interrupted` or to the end."""

    resolved: Resolved
    interrupted: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured(Observed):
    """What was measured; `references` are of the other stack. `lost` says who was lost."""

    resolved: TimedResolved
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramJob(Job):
    """A case that is compiled for a topology, and what is stored of it."""

    topology: Topology
    stored: CompiledBaseline | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramsResolved(Resolved):
    """What is compiled, by which compilers."""

    jobs: Mapping[Spec, ProgramJob]
    compilers: Described


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs(Observed):
    """What compilers have made of the cases."""

    resolved: ProgramsResolved
    results: Mapping[Spec, Compiled | Failure] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """`observed` is None where the probe was cut short; `moved` cases left their level."""

    collected: Collected
    session: SessionVerdict
    verdicts: Mapping[Spec, Verdict] = field(default_factory=dict)
    observed: Measured | Programs | None = None
    groups: tuple[SizeGroup, ...] = ()
    moved: frozenset[Case] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        return self.collected.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What was written at the end, and what could not be.

    `exit_code` is what the session ends with, if not with what its verdicts say.
    """

    judged: Judged
    exit_code: int | None = None
    changes: tuple[Change[Any], ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
