"""The state of a session, phase by phase: each value is made of the one before, and none changes.

Collected → Resolved → Measured → Judged → Written; where programs are compiled instead of timed,
CompileResolved and Programs instead of Resolved and Measured. Whoever runs a session holds the last
of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from busbw.baselines.compiled import CompiledChange
from busbw.baselines.store import FoundBaseline
from busbw.baselines.updates import Change
from busbw.grid import Target
from busbw.judge.levels import Levels
from busbw.judge.session import SizeGroup
from busbw.model.case import Case, CompileSpec, Spec
from busbw.model.launch import Compiled, Failure, Measurement, Plan
from busbw.model.machine import Compiler, Environment, EnvironmentKey, Probe, Topology
from busbw.model.stored import CompiledBaseline, EarlierSession
from busbw.model.verdict import CompiledVerdict, Reference, SessionVerdict, Verdict
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
class TimedJob:
    """A case that is measured, where, and what it is compared with.

    `slice_key` has the shape of the slice. `stored` and `published` are empty where two stacks are
    compared with each other.
    """

    case: Case
    key: EnvironmentKey
    slice_key: EnvironmentKey
    stored: FoundBaseline = field(default_factory=FoundBaseline)
    published: Reference | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """What is measured of the selected `specs`, how hard, and what is left out.

    `levels` are those of every machine with baselines where a job is measured, `lockable` the
    stacks by framework where new baselines lock them, `nights` what the locked reference stacks
    took in earlier nights.
    """

    collected: Collected
    machine: Machine
    specs: tuple[Spec, ...]
    jobs: Mapping[Spec, TimedJob]
    skipped: Mapping[Spec, Verdict]
    environment: Environment
    plan: Plan
    levels: Mapping[EnvironmentKey, Levels] = field(default_factory=dict)
    lockable: Mapping[str, Lockable] = field(default_factory=dict)
    nights: Mapping[LevelKey, Sequence[EarlierSession] | None] = field(default_factory=dict)
    examples: str = ""
    stored_frameworks: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        return self.collected.settings

    @property
    def paired(self) -> bool:
        return self.settings.against is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """So far; `references` are of the other stack. `lost` names who is gone, which ended it."""

    resolved: Resolved
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    lost: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramJob:
    """A CompileSpec with its topology, and what is stored of it."""

    topology: Topology
    case: Case
    key: EnvironmentKey
    stored: CompiledBaseline | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileResolved:
    """What is compiled of the selected `specs`, by which compilers, and what is left out."""

    collected: Collected
    specs: tuple[CompileSpec, ...]
    compilers: Described
    jobs: Mapping[CompileSpec, ProgramJob]
    skipped: Mapping[CompileSpec, CompiledVerdict]

    @property
    def settings(self) -> Settings:
        return self.collected.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """What compilers have made of the cases so far."""

    resolved: CompileResolved
    results: Mapping[CompileSpec, Compiled | Failure] = field(default_factory=dict)
    interrupted: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """`observed` is None where the probe was cut short; `moved` cases left their level."""

    collected: Collected
    session: SessionVerdict
    verdicts: Mapping[Spec, Verdict] = field(default_factory=dict)
    compiled: Mapping[CompileSpec, CompiledVerdict] = field(default_factory=dict)
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
    changes: tuple[Change, ...] = ()
    compiled_changes: tuple[CompiledChange, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
