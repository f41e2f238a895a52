"""With --topology: before the first test runs, compile and judge. Nothing is measured then."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from busbw import baselines, cases, driver, judge
from busbw.frameworks import FRAMEWORKS
from busbw.model import (
    Capability,
    Case,
    Compiled,
    CompiledBaseline,
    CompiledVerdict,
    Compiler,
    CompileSpec,
    DeviceSet,
    EnvironmentKey,
    Failure,
    FailureKind,
    GridError,
    Outcome,
    Topology,
)

from .compile_settings import CompileSettings
from .compilers import Libtpu, library_of
from .state import State
from .terminal import Display

_RELEASE = "BUSBW_COMPILER_RELEASE"

# By the compiler's label and the topology's name.
Described = Mapping[tuple[str, str], Compiler]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """A CompileSpec with its topology, and where its baseline is."""

    topology: Topology
    case: Case
    key: EnvironmentKey


def compile_all(
    state: State,
    specs: Sequence[CompileSpec],
    executor: driver.Executor,
    display: Display,
    skip: str,
) -> None:
    """Compile what `specs` ask for; verdicts are in `state`."""
    asked = state.settings.compile
    assert asked is not None
    compiling = driver.Parallel(
        executor=executor,
        starters=_starters(state, asked, specs[0].spec.framework),
        workers=len(os.sched_getaffinity(0)),
        timeout_s=state.settings.case_timeout_s,
        cache=asked.cache,
        on_progress=display.compiled,
    )
    compilers = _described(compiling, specs, asked)
    state.compilers = tuple(compilers.values())
    display.compilers(state.compilers)
    resolved = _resolved(state, specs, asked, compilers)
    stored = _stored(state, resolved)
    _run(state, compiling, [_job(spec, one) for spec, one in resolved.items()], display)
    found = {spec: compiling.results[_job(spec, one)] for spec, one in resolved.items()}
    _judge(state, resolved, found, stored, compilers)
    state.compiled = {spec: state.compiled[spec] for spec in specs}
    state.session_verdict = judge.judge_compiled_session(
        list(state.compiled.values()),
        asked_to_skip=skip,
        missing=_promised(state, asked, compilers),
    )
    state.compiled_results = {
        spec: (one.key, one.case, found[spec]) for spec, one in resolved.items()
    }


def _promised(state: State, asked: CompileSettings, compilers: Described) -> tuple[str, ...]:
    """Topologies that have baselines here and no compiler at all, with the reason, each once."""
    framework = next(iter(state.compiled)).spec.framework
    there = {one.topology for one in compilers.values() if not one.missing}
    why = {name: one.missing for (_, name), one in compilers.items() if name not in there}
    names: dict[str, list[str]] = {}
    for one in asked.topologies:
        if one.name in why and baselines.has_compiled(state.settings.baselines, one, framework):
            names.setdefault(why[one.name], []).append(one.name)
    return tuple(f"{', '.join(those)}: {reason}" for reason, those in names.items())


def _run(
    state: State, compiling: driver.Parallel, jobs: Sequence[driver.Job], display: Display
) -> None:
    begun_s = time.monotonic()
    try:
        compiling.run(jobs)
    except KeyboardInterrupt:
        state.interrupted = True
        raise
    finally:
        display.done_compiling(time.monotonic() - begun_s)


def _job(spec: CompileSpec, one: Resolved) -> driver.Job:
    return driver.Job(case=one.case, topology=one.topology, compiler=spec.compiler)


def _starters(state: State, asked: CompileSettings, framework: str) -> dict[str, driver.Starter]:
    python = state.settings.pythons.get(framework, sys.executable)
    libtpus: Sequence[Libtpu | None] = asked.libtpus or (None,)
    labels = labels_of(asked)
    try:
        return {
            label: driver.Starter(
                python=python,
                framework=framework,
                capability=Capability.COMPILE,
                defaults=FRAMEWORKS[framework].environment,
                environment=_environment(libtpu, asked, fake=framework == "fake"),
            )
            for label, libtpu in zip(labels, libtpus, strict=True)
        }
    except ValueError as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def labels_of(asked: CompileSettings) -> tuple[str, ...]:
    """What tells several compilers apart; one alone needs no name."""
    several = len(asked.libtpus) > 1
    return tuple(f"libtpu{one.label}" for one in asked.libtpus) if several else ("",)


def _environment(libtpu: Libtpu | None, asked: CompileSettings, *, fake: bool) -> dict[str, str]:
    if libtpu is None:
        return {}
    release = {_RELEASE: f"libtpu {libtpu.label}"}
    if fake:
        return release
    return {"TPU_LIBRARY_PATH": str(library_of(libtpu, asked.cache)), **release}


def _described(
    compiling: driver.Parallel, specs: Sequence[CompileSpec], asked: CompileSettings
) -> Described:
    """Every compiler for every topology that is selected."""
    topologies = [one for one in asked.topologies if one.name in {s.topology for s in specs}]
    found = {
        (label, one.topology): one
        for label in dict.fromkeys(spec.compiler for spec in specs)
        for one in compiling.describe(label, topologies)
    }
    _check_there(list(found.values()), asked)
    return found


def _check_there(compilers: Sequence[Compiler], asked: CompileSettings) -> None:
    """A named topology that none of the compilers is for is an error; so are no compilers at all.

    One release of several that does not know a chip yet is none: that is what is to be seen.
    """
    there = {one.topology for one in compilers if not one.missing}
    absent = [one for one in compilers if one.topology not in there]
    if absent and (not asked.families or not there):
        raise pytest.UsageError(f"busbw: --topology={absent[0].topology}: {absent[0].missing}")


def _resolved(
    state: State, specs: Sequence[CompileSpec], asked: CompileSettings, compilers: Described
) -> dict[CompileSpec, Resolved]:
    by_name = {one.name: one for one in asked.topologies}
    resolved = {}
    for spec in specs:
        compiler = compilers[spec.compiler, spec.topology]
        if compiler.devices is None:
            state.compiled[spec] = CompiledVerdict(
                spec=spec, outcome=Outcome.SKIPPED, failed=False, text=compiler.missing
            )
            continue
        resolved[spec] = _one(spec, by_name[spec.topology], compiler.devices)
    return resolved


def _one(spec: CompileSpec, topology: Topology, devices: DeviceSet) -> Resolved:
    try:
        case, key = cases.resolve_on(spec.spec, devices)
    except GridError as error:
        raise pytest.UsageError(f"busbw: --topology={topology.name}: {error}") from error
    return Resolved(topology=topology, case=case, key=key)


def _stored(
    state: State, resolved: Mapping[CompileSpec, Resolved]
) -> dict[CompileSpec, CompiledBaseline | None]:
    """Read before anything is compiled: a damaged file is found at once."""
    root = state.settings.baselines
    try:
        if state.settings.writes_baselines:
            keyed = [(one.key, one.case) for one in resolved.values()]
            baselines.check_writable(root, keyed, compiled=True)
        return {
            spec: baselines.find_compiled(root, one.key, one.case) for spec, one in resolved.items()
        }
    except (baselines.BaselineError, OSError) as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def _judge(
    state: State,
    resolved: Mapping[CompileSpec, Resolved],
    found: Mapping[CompileSpec, Compiled | Failure],
    stored: Mapping[CompileSpec, CompiledBaseline | None],
    compilers: Described,
) -> None:
    """The first compiler is held against what is stored, a further one against the one before."""
    previous: dict[tuple[str, str], CompiledBaseline | None] = {}
    labels = list(dict.fromkeys(label for label, _ in compilers))
    for spec in sorted(resolved, key=lambda one: labels.index(one.compiler)):
        release = compilers[spec.compiler, spec.topology].release
        place = (spec.topology, spec.spec.id)
        first = place not in previous
        before = stored[spec] if first else previous[place]
        state.compiled[spec] = judge.judge_compiled(
            spec,
            resolved[spec].case,
            found[spec],
            before,
            _terms(state, "" if first or before is None else before.release, stored=first),
            release=release,
        )
        previous[place] = _as_baseline(resolved[spec].case, found[spec], release)


def _terms(state: State, other: str, *, stored: bool) -> judge.CompileTerms:
    """`stored`: it is held against what is stored, which alone can be required."""
    assert state.settings.compile is not None
    terms = judge.CompileTerms(
        require_baselines=state.settings.require_baselines and stored,
        accept_changes=state.settings.compile.accept_changes,
        accept_all=state.settings.update_baselines == "all",
        accept_new=state.settings.update_baselines in ("all", "new"),
    )
    return replace(terms, before=other) if other else terms


def _as_baseline(case: Case, now: Compiled | Failure, release: str) -> CompiledBaseline | None:
    """What one compiler gave, for the next one to be held against."""
    today = datetime.date.today().isoformat()
    if isinstance(now, Compiled):
        return CompiledBaseline(case=case, compiled=now, date=today, release=release)
    if now.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    return CompiledBaseline(
        case=case,
        compiled=None,
        date=today,
        release=release,
        needed_bytes=now.needed_bytes,
        available_bytes=now.available_bytes,
    )
