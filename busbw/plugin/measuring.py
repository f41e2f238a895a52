"""Before the first test runs: probe, measure, judge. Not charged to any test."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import filelock
import pytest

from busbw import baselines, cases, driver, judge
from busbw.model import Case, Device, Outcome, Plan, Probe, Reference, Spec, Verdict, extents_of

from . import machine, updating
from .settings import Settings
from .state import STATE, State, spec_of, under_xdist
from .terminal import Display


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Measure what was selected, then let the tests read their verdicts."""
    specs = [spec for item in session.items if (spec := spec_of(item)) is not None]
    if specs and _will_run(session):
        state = session.config.stash[STATE]
        display = Display(session.config)
        with _bundle() as bundle, _alone(state, display):
            _measure(
                state, tuple(dict.fromkeys(specs)), bundle, display, _asked_to_skip(session.config)
            )
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
    """One measuring session per machine: two at once would measure each other."""
    path = Path(tempfile.gettempdir()) / f"busbw-{os.getuid()}-device.lock"
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        display.line("another busbw session is measuring on this machine; waiting for its end")
        _wait_for(lock, state.settings.device_wait_s)
    try:
        yield
    finally:
        lock.release()


def _wait_for(lock: filelock.BaseFileLock, timeout_s: float) -> None:
    try:
        lock.acquire(timeout=timeout_s)
    except filelock.Timeout as error:
        raise pytest.UsageError(
            f"busbw: another session has been measuring on this machine for {timeout_s:g} s "
            f"(lock {lock.lock_file})"
        ) from error


def _measure(
    state: State, specs: Sequence[Spec], bundle: driver.Bundle, display: Display, skip: str
) -> None:
    settings = state.settings
    probes = _probe(state, specs, bundle)
    target = _target(state, probes)
    state.target = target
    resolved = _resolved(state, specs, target)
    state.keys = {spec: target.key(spec) for spec in resolved}
    state.environment = machine.environment(target, probes, next(iter(state.keys.values()), None))
    state.plan = Plan(
        launches=settings.launches,
        timeout_s=settings.case_timeout_s,
        seed=int.from_bytes(os.urandom(4), "big"),
        memory_limit_bytes=settings.memory_limit_bytes,
    )
    found = _baselines_of(state, resolved)
    nearest = (stored.nearest for stored, _ in found.values() if stored.nearest)
    state.notes.extend(dict.fromkeys(nearest))
    display.header(state)
    if resolved:
        _sweep(state, resolved, bundle, display)
    _judge(state, specs, resolved, found, skip)


def _starter(
    state: State, framework: str, device: Device | None, ranks: int | None
) -> driver.Starter:
    return driver.Starter(
        python=state.settings.pythons.get(framework, sys.executable),
        framework=framework,
        device=device.value if device else "",
        ranks=ranks,
    )


def _ranks_asked(settings: Settings) -> int | None:
    """Virtual devices are made at start: so many as --ranks says, or as the mesh has."""
    of_mesh = math.prod(extents_of(settings.mesh)) if settings.mesh else None
    return settings.ranks or of_mesh


def _probe(state: State, specs: Sequence[Spec], bundle: driver.Bundle) -> list[Probe]:
    settings = state.settings
    frameworks = dict.fromkeys(spec.framework for spec in specs)
    probes = []
    for framework in frameworks:
        starter = _starter(state, framework, settings.device, _ranks_asked(settings))
        try:
            probes.append(driver.probe(starter, bundle))
        except driver.ProbeFailed as error:
            raise pytest.UsageError(f"busbw: {error}") from error
    return probes


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
    except cases.GridError as error:
        wanted = f"--device={settings.device.value}: " if settings.device else ""
        raise pytest.UsageError(f"busbw: {wanted}{error}") from error


def _resolved(state: State, specs: Sequence[Spec], target: cases.Target) -> dict[Spec, Case]:
    """The Cases; a Spec whose framework does not reach the device is SKIPPED, and said."""
    resolved = {}
    for spec in specs:
        if spec.framework in target.unreached:
            text = f"{spec.framework}: {target.unreached[spec.framework]}"
            state.verdicts[spec] = Verdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=text
            )
            continue
        try:
            resolved[spec] = cases.resolve(spec, target)
        except cases.GridError as error:
            raise pytest.UsageError(f"busbw: {error}") from error
    return resolved


def _baselines_of(
    state: State, resolved: dict[Spec, Case]
) -> dict[Spec, tuple[baselines.Found, Reference | None]]:
    """Read before anything is measured: a damaged file is found at once."""
    root = state.settings.baselines
    try:
        return {
            spec: (
                baselines.find(root, state.keys[spec], case),
                baselines.find_published(root, state.keys[spec], case),
            )
            for spec, case in resolved.items()
        }
    except baselines.BaselineError as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def _sweep(
    state: State, resolved: dict[Spec, Case], bundle: driver.Bundle, display: Display
) -> None:
    assert state.plan is not None and state.target is not None
    device = state.target.device
    ranks = {spec.framework: state.keys[spec].ranks for spec in resolved}
    sweep = driver.Sweep(
        # Two strategies can be two names of one Case: it is measured once.
        cases={case: state.keys[spec] for spec, case in resolved.items()},
        plan=state.plan,
        starters={name: _starter(state, name, device, number) for name, number in ranks.items()},
        bundle=bundle,
        handover=device is Device.CPU,
        on_progress=display.progress,
        on_note=state.notes.append,
    )
    begun_s = time.monotonic()
    try:
        sweep.run()
    except KeyboardInterrupt:
        state.interrupted = True
        raise
    finally:
        state.measuring_s = time.monotonic() - begun_s
        state.spent_s = sweep.spent_s
        found = {measurement.case: measurement for measurement in sweep.measurements()}
        state.measurements = {spec: found[case] for spec, case in resolved.items()}
        display.done(state)


def _judge(
    state: State,
    specs: Sequence[Spec],
    resolved: dict[Spec, Case],
    found: dict[Spec, tuple[baselines.Found, Reference | None]],
    skip: str,
) -> None:
    assert state.plan is not None and state.target is not None
    policy = judge.POLICIES[state.target.device]
    for spec in resolved:
        stored, reference = found[spec]
        terms = judge.Terms(
            policy=policy,
            require_baselines=state.settings.require_baselines,
            accept_all=updating.takes_slower(
                state.settings, stored.baseline, state.measurements[spec], policy.budget
            ),
            accept_new=state.settings.update_baselines == "new",
        )
        state.verdicts[spec] = judge.judge_case(
            spec,
            state.measurements[spec],
            stored.baseline,
            terms,
            nearest=stored.nearest,
            reference=reference,
        )
    state.session_verdict = judge.judge_session(
        [state.verdicts[spec] for spec in specs],
        list(state.measurements.values()),
        launches=state.plan.launches,
        asked_to_skip=skip,
    )


def _asked_to_skip(config: pytest.Config) -> str:
    return "--benchmark-skip" if config.getoption("benchmark_skip", False) else ""
