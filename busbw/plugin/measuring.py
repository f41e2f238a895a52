"""Before the first test runs: probe, measure, judge. Not charged to any test."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw import baselines, cases, driver
from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, GridError, Plan, Probe, Spec, extents_of

from . import judging, machine, rounds
from .compiling import compile_all
from .examples import examples_for
from .resolving import resolved
from .settings import Settings, how_to_get
from .state import STATE, State, compile_spec_of, spec_of, under_xdist
from .terminal import Display

# In turn, a launch's fixed cost is that of two processes: a few more samples are worth it.
_SAMPLING_IN_TURN: Mapping[str, Any] = {
    "samples": 40,
    "budget_s": 1.5,
    "anchor_budget_s": 0.0,
}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Measure or compile what was selected, then let the tests read their verdicts."""
    specs = [spec for spec in map(spec_of, session.items) if spec is not None]
    compiled = [spec for spec in map(compile_spec_of, session.items) if spec is not None]
    if (specs or compiled) and _will_run(session):
        state = session.config.stash[STATE]
        display = Display(session.config)
        skip = _asked_to_skip(session.config)
        with _bundle() as bundle:
            executor = driver.Executor(driver.LocalTransport(bundle), state.notes.append)
            try:
                if compiled:
                    compile_all(state, tuple(dict.fromkeys(compiled)), executor, display, skip)
                if specs:
                    with _alone(state, display):
                        _measure(
                            state, tuple(dict.fromkeys(specs)), executor, bundle.path, display, skip
                        )
            except driver.ProbeCutShort as error:
                judging.give_up(state, specs, compiled, str(error))
    return (yield)


def _will_run(session: pytest.Session) -> bool:
    """Whether pytest will go on to run tests, in this process."""
    option = session.config.option
    broken = session.testsfailed and not option.continue_on_collection_errors
    return not (option.collectonly or broken or under_xdist(session.config))


@contextlib.contextmanager
def _bundle() -> Iterator[driver.Bundle]:
    bundle = driver.Bundle()
    try:
        yield bundle
    finally:
        bundle.remove()


@contextlib.contextmanager
def _alone(state: State, display: Display) -> Iterator[None]:
    waiting = "another busbw session is measuring on this machine; waiting for its end"
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(
                driver.alone(
                    state.settings.device_wait_s, lambda who: display.line(f"{waiting} ({who})")
                )
            )
        except driver.BusyError as error:
            raise pytest.UsageError(f"busbw: {error}") from error
        yield


def _measure(
    state: State,
    specs: Sequence[Spec],
    executor: driver.Executor,
    folder: Path,
    display: Display,
    skip: str,
) -> None:
    settings = state.settings
    probes = _probe(state, specs, executor)
    target = _target(state, probes)
    state.target = target
    cases_of = resolved(state, specs, target)
    state.examples = examples_for(cases_of.values(), folder)
    state.keys = {spec: target.key(spec) for spec in cases_of}
    # Training on one device and in several processes are cases among others.
    widest = max(state.keys.values(), key=lambda key: (key.ranks, -key.processes), default=None)
    state.environment = machine.environment(target, probes, widest)
    state.plan = Plan(
        launches=settings.launches,
        **_SAMPLING_IN_TURN if settings.against is not None else {},
        timeout_s=settings.case_timeout_s,
        seed=int.from_bytes(os.urandom(4), "big"),
        memory_limit_bytes=settings.memory_limit_bytes,
    )
    if settings.against is None:
        _find_baselines(state, cases_of)
    else:
        _probe_reference(state, cases_of, executor)
    display.header(state)
    if cases_of:
        rounds.measure(state, cases_of, executor, display)
    judging.judge_all(state, tuple(specs), cases_of, skip)


def _ranks_asked(settings: Settings) -> int | None:
    """Virtual devices are made at start: so many as --ranks says, or as the mesh has."""
    of_mesh = math.prod(extents_of(settings.mesh)) if settings.mesh else None
    return settings.ranks or of_mesh


def _probe(state: State, specs: Sequence[Spec], executor: driver.Executor) -> list[Probe]:
    settings = state.settings
    selected = dict.fromkeys(spec.framework for spec in specs)
    frameworks = [name for name in selected if name not in settings.absent_frameworks]
    if not frameworks:
        name = next(iter(selected))
        raise pytest.UsageError(f"busbw: {name} is not installed here; {how_to_get(name)}")
    probes = []
    for framework in frameworks:
        starter = rounds.starter_of(state, framework, settings.device, _ranks_asked(settings))
        probes.append(_probed(starter, executor))
    return probes


def _probed(starter: driver.Starter, executor: driver.Executor, side: str = "") -> Probe:
    """One framework's answer. None is a usage error, unless its workers were cut short."""
    try:
        return driver.probe(starter, executor)
    except driver.ProbeCutShort:
        raise
    except driver.ProbeFailed as error:
        raise pytest.UsageError(f"busbw: {side}{error}") from error


def _target(state: State, probes: Sequence[Probe]) -> cases.Target:
    settings = state.settings
    named = settings.frameworks if settings.frameworks_named else ()
    probed = {probe.framework for probe in probes}
    try:
        return cases.choose_target(
            device=settings.device,
            ranks=settings.ranks,
            probes=probes,
            named=[name for name in named if name in probed],
        )
    except GridError as error:
        wanted = f"--device={settings.device.value}: " if settings.device else ""
        raise pytest.UsageError(f"busbw: {wanted}{error}") from error


def _probe_reference(state: State, cases_of: dict[Spec, Case], executor: driver.Executor) -> None:
    """The reference must reach the same devices in the same way, and be another stack if it can."""
    assert state.target is not None
    probes = {}
    for framework in dict.fromkeys(spec.framework for spec in cases_of):
        starter = rounds.starter_of(
            state,
            framework,
            state.target.device,
            _ranks_asked(state.settings),
            side=driver.Side.REFERENCE,
        )
        probes[framework] = _probed(starter, executor, "the reference: ")
        _check_stacks(state, framework, probes[framework])
    state.reference_probes = tuple(probes.values())
    for spec, case in cases_of.items():
        _check_same_case(state, spec, case, probes[spec.framework])


def _check_stacks(state: State, framework: str, probe: Probe) -> None:
    """Two interpreters that load the same files are one stack compared with itself."""
    assert state.environment is not None and state.settings.against is not None
    ours = rounds.starter_of(state, framework, None, None).python
    theirs = rounds.starter_of(state, framework, None, None, side=driver.Side.REFERENCE).python
    path = state.environment.framework_paths.get(framework)
    differ = ours != theirs and not state.settings.against.environment
    if differ and not FRAMEWORKS[framework].made_up and probe.framework_path == path:
        raise pytest.UsageError(
            f"busbw: --against: {theirs} and {ours} both load {framework} from {path}: "
            "that is one stack, not two"
        )


def _check_same_case(state: State, spec: Spec, case: Case, probe: Probe) -> None:
    assert state.target is not None
    try:
        target = cases.choose_target(
            device=state.target.device,
            ranks=state.settings.ranks,
            probes=[probe],
            named=[spec.framework],
        )
        theirs = cases.resolve(spec, target)
    except GridError as error:
        raise pytest.UsageError(f"busbw: the reference: {error}") from error
    if theirs != case or target.key(spec) != state.keys[spec]:
        raise pytest.UsageError(
            f"busbw: --against: the reference would measure another case: {theirs.name} with "
            f"protocol {theirs.protocol} on {target.key(spec)}, here {case.name} with "
            f"{case.protocol} on {state.keys[spec]}"
        )


def _find_baselines(state: State, cases_of: dict[Spec, Case]) -> None:
    """Read before anything is measured: a damaged file is found at once."""
    root = state.settings.baselines
    try:
        state.found = {
            spec: (
                baselines.find(
                    root,
                    state.keys[spec],
                    case,
                    memory_limit_bytes=state.settings.memory_limit_bytes,
                ),
                baselines.find_published(root, state.keys[spec], case),
            )
            for spec, case in cases_of.items()
        }
        if state.settings.writes_baselines:
            keyed = [(state.keys[spec], case) for spec, case in cases_of.items()]
            baselines.check_writable(root, keyed)
    except (baselines.BaselineError, OSError) as error:
        raise pytest.UsageError(f"busbw: {error}") from error
    assert state.environment is not None
    state.stored_frameworks = baselines.frameworks_at(root, state.environment.key)
    nearest = (stored.nearest for stored, _ in state.found.values() if stored.nearest)
    state.notes.extend(dict.fromkeys(nearest))


def _asked_to_skip(config: pytest.Config) -> str:
    return "--benchmark-skip" if config.getoption("benchmark_skip", False) else ""
