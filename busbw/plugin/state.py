"""What a pytest session holds of ours, under one key, and nothing anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from busbw.baselines import Change, CompiledChange, Found
from busbw.cases import Target
from busbw.judge import Group
from busbw.model import (
    Case,
    Compiled,
    CompiledVerdict,
    Compiler,
    CompileSpec,
    Environment,
    EnvironmentKey,
    Failure,
    Measurement,
    Plan,
    Probe,
    Reference,
    SessionVerdict,
    Spec,
    Verdict,
)

from .settings import Settings, settings_of

CompileResult = tuple[EnvironmentKey, Case, "Compiled | Failure"]


@dataclass
class State:
    """Filled in the order of the fields: settings, then what was measured, then verdicts."""

    settings: Settings
    grid: tuple[Spec, ...] = ()
    grid_error: str = ""
    nothing_asked: bool = False
    plan: Plan | None = None
    target: Target | None = None
    environment: Environment | None = None
    examples: str = ""
    keys: Mapping[Spec, EnvironmentKey] = field(default_factory=dict)
    found: Mapping[Spec, tuple[Found, Reference | None]] = field(default_factory=dict)
    stored_frameworks: frozenset[str] = frozenset()
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    reference_probes: tuple[Probe, ...] = ()
    groups: tuple[Group, ...] = ()
    verdicts: dict[Spec, Verdict] = field(default_factory=dict)
    session_verdict: SessionVerdict | None = None
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    compile_grid: tuple[CompileSpec, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    compiled: dict[CompileSpec, CompiledVerdict] = field(default_factory=dict)
    compiled_results: Mapping[CompileSpec, CompileResult] = field(default_factory=dict)
    compiled_changes: tuple[CompiledChange, ...] = ()
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    changes: tuple[Change, ...] = ()


STATE = pytest.StashKey[State]()
VERDICT = pytest.StashKey["Verdict | CompiledVerdict | SessionVerdict"]()


def pytest_configure(config: pytest.Config) -> None:
    """Read the options; a wrong one is a usage error before anything else happens."""
    config.addinivalue_line("markers", "busbw: a test that reads the verdict of one measured case")
    config.addinivalue_line(
        "markers",
        "training(step, alone): training steps, or with alone=True their collectives by "
        "themselves; there only where -m asks for training",
    )
    config.stash[STATE] = State(settings=settings_of(config))


def under_xdist(config: pytest.Config) -> bool:
    """Whether this process runs tests for pytest-xdist."""
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | None:
    """The Spec of a perf item, None for any other."""
    spec = _parameter(item, "verdict")
    return spec if isinstance(spec, Spec) else None


def compile_spec_of(item: pytest.Item) -> CompileSpec | None:
    """The CompileSpec of an item that reads what was compiled, None for any other."""
    spec = _parameter(item, "compiled")
    return spec if isinstance(spec, CompileSpec) else None


def is_perf(item: pytest.Item) -> bool:
    """Whether `item` reads a verdict of one case, measured or compiled."""
    return spec_of(item) is not None or compile_spec_of(item) is not None


def _parameter(item: pytest.Item, name: str) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(name) if callspec is not None else None
