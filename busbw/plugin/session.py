"""The state of a session, phase by phase: each value is made of the one before, and none changes.

Collected → Resolved → Measured → Judged → Written; where programs are compiled instead of timed,
CompileResolved and Programs instead of Resolved and Measured. pytest's config holds the last value
under one key; a test item names the Spec whose verdict it reads. A session without such items has
no value.
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import pytest

from busbw.agent.processes import SECRET
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

from . import hints
from .forms import updates_of
from .options import OPTIONS, UPDATES
from .settings import Settings, settings_of, usage_error

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
    """What was written at the end, and what could not be."""

    judged: Judged
    changes: tuple[Change, ...] = ()
    compiled_changes: tuple[CompiledChange, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


Session = Refused | Collected | Measured | Programs | Judged | Written

SESSION = pytest.StashKey[Session]()

# The options as they were given: a hook may set others.
GIVEN = pytest.StashKey[argparse.Namespace]()

# The secret that this process was started with, no longer in its environment.
OF_ENVIRONMENT = pytest.StashKey[dict[str, str]]()

# The attribute of a failed report whose failure is said in the section of busbw.
TOLD = "busbw_told"


def collected_of(config: pytest.Config) -> Collected:
    found = config.stash[SESSION]
    assert isinstance(found, Collected)
    return found


def judged_of(config: pytest.Config) -> Judged | None:
    found = config.stash.get(SESSION, None)
    if isinstance(found, Written):
        return found.judged
    return found if isinstance(found, Judged) else None


VERDICT = pytest.StashKey[Verdict | CompiledVerdict | SessionVerdict]()


def begun(config: pytest.Config) -> Refused | Collected:
    """A session without tests of ours is left as it is, whatever is wrong with its options."""
    if SESSION not in config.stash:
        try:
            config.stash[SESSION] = Collected(settings=settings_of(config))
        except pytest.UsageError as error:
            config.stash[SESSION] = Refused(error=str(error))
    found = config.stash[SESSION]
    assert isinstance(found, (Refused, Collected))
    return found


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Take the secret out of the environment at once: what anybody starts would inherit it."""
    text = os.environ.pop(SECRET, "")
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None:
        config.stash[OF_ENVIRONMENT] = {SECRET: text}
        if hasattr(config, "known_args_namespace"):
            config.stash[GIVEN] = copy.copy(config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Where the plugin came before the options were parsed: with -p."""
    early_config.stash[GIVEN] = copy.copy(early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Say what our marks mean; with an option of ours, sizes are no paths of tests."""
    if any(config.getoption(option.name) is not None for option in OPTIONS):
        with usage_error(ValueError):
            hints.check_paths(config.args)
    # Else the path that it took for its value would not be collected, but all other tests.
    with usage_error(ValueError):
        updates_of(config.getoption("update_baselines"), UPDATES)
    config.addinivalue_line("markers", "busbw: a test that reads the verdict of one measured case")
    config.addinivalue_line(
        "markers",
        "training(step, alone): training steps, or with alone=True their collectives by "
        "themselves; there only where -m asks for training",
    )


def under_xdist(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | CompileSpec | None:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    found = parameters.get("busbw_verdict", parameters.get("busbw_compiled"))
    return found if isinstance(found, (Spec, CompileSpec)) else None
