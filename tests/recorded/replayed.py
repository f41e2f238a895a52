"""A recorded session's launches, judged again. No test lives here.

What stands in the results is read back; what the options said is handed to the judge as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from busbw import baselines, judge, report, wire
from busbw.model import (
    Case,
    Compiled,
    CompiledVerdict,
    Compiler,
    CompileSpec,
    Device,
    Environment,
    EnvironmentKey,
    Failure,
    Measurement,
    Outcome,
    Plan,
    Run,
    Spec,
    StoredCase,
    StoredSpec,
    Topology,
    Verdict,
)
from busbw.plugin import compiling, judging
from busbw.plugin.state import State

from .corpus import Recorded


def results(recorded: Recorded, root: Path) -> dict[str, Any]:
    """The results of `recorded`, whose baselines lie below `root`, as they are judged now."""
    return _compiled(recorded, root) if recorded.is_compiled else _measured(recorded, root)


def _measured(recorded: Recorded, root: Path) -> dict[str, Any]:
    given = recorded.given
    specs = [wire.from_json(StoredSpec, one).spec for one in given["specs"]]
    rows = dict(zip(specs, recorded.results["cases"], strict=True))
    stored = _known(specs, given["cases"], StoredCase)
    cases = {spec: one.case for spec, one in stored.items()}
    state = _state(recorded, _known(specs, given["slice_keys"], EnvironmentKey))
    state.keys = _known(specs, given["keys"], EnvironmentKey)
    state.measurements = {
        spec: Measurement(
            case=case,
            runs=_all(Run, rows[spec]["launches"]),
            failures=_all(Failure, rows[spec]["failures"]),
        )
        for spec, case in cases.items()
    }
    state.references = {
        spec: Measurement(case=case, runs=_all(Run, rows[spec]["reference_launches"]))
        for spec, case in cases.items()
    }
    state.verdicts = {
        spec: Verdict(
            spec=spec,
            outcome=Outcome(row["outcome"]),
            failed=row["failed"],
            text=row["text"],
        )
        for spec, row in rows.items()
        if spec not in cases
    }
    if not given["settings"]["paired"]:
        _find(state, cases, root, given["settings"]["memory_limit_bytes"])
    judging.judge_all(state, tuple(specs), cases, given["skip"])
    assert state.environment is not None and state.plan is not None
    return report.results(
        environment=state.environment,
        plan=state.plan,
        session=state.session_verdict,
        verdicts=tuple(state.verdicts.values()),
        measurements=state.measurements,
        measuring_s=0.0,
        spent_s={},
        quantiles_s={},
        references=state.references,
    )


def _state(recorded: Recorded, slices: Mapping[Spec, EnvironmentKey]) -> State:
    given = recorded.given
    settings = SimpleNamespace(
        against=given["settings"]["paired"] or None,
        require_baselines=given["settings"]["require_baselines"],
        update_baselines=given["settings"]["update_baselines"],
        accept_regression=given["settings"]["accept_regression"],
        memory_limit_bytes=given["settings"]["memory_limit_bytes"],
        absent_frameworks=tuple(given["settings"]["absent_frameworks"]),
    )
    target = SimpleNamespace(
        device=Device(given["device"]), unreached=given["unreached"], slice_key=slices.__getitem__
    )
    return State(
        settings=settings,  # type: ignore[arg-type]
        target=target,  # type: ignore[arg-type]
        environment=wire.from_json(Environment, recorded.results["environment"]),
        plan=wire.from_json(Plan, given["plan"]),
    )


def _find(
    state: State, cases: Mapping[Spec, Case], root: Path, memory_limit_bytes: int | None
) -> None:
    state.found = {
        spec: (
            baselines.find(root, state.keys[spec], case, memory_limit_bytes=memory_limit_bytes),
            baselines.find_published(root, state.keys[spec], case),
        )
        for spec, case in cases.items()
    }
    assert state.environment is not None
    state.stored_frameworks = baselines.frameworks_at(root, state.environment.key)


def _compiled(recorded: Recorded, root: Path) -> dict[str, Any]:
    given = recorded.given
    specs = [_compile_spec(one) for one in given["compile_specs"]]
    compilers = _all(Compiler, [{**one, "devices": None} for one in given["compilers"]])
    topologies = _all(Topology, given["topologies"])
    labels = list(dict.fromkeys(spec.compiler for spec in specs))
    each = len(compilers) // len(labels) if labels else 0
    described = {(labels[place // each], one.topology): one for place, one in enumerate(compilers)}
    asked = SimpleNamespace(
        accept_changes=given["settings"]["accept_changes"], topologies=topologies
    )
    settings = SimpleNamespace(
        baselines=root,
        compile=asked,
        require_baselines=given["settings"]["require_baselines"],
        update_baselines=given["settings"]["update_baselines"],
        writes_baselines=False,
    )
    state = State(settings=settings)  # type: ignore[arg-type]
    resolved: dict[CompileSpec, compiling.Resolved] = {}
    found: dict[CompileSpec, Compiled | Failure] = {}
    by_name = {one.name: one for one in topologies}
    for place, (key, case, kind, answer) in zip(given["results_of"], given["results"], strict=True):
        spec = specs[place]
        resolved[spec] = compiling.Resolved(
            topology=by_name[spec.topology],
            case=wire.from_json(StoredCase, case).case,
            key=wire.from_json(EnvironmentKey, key),
        )
        found[spec] = (
            wire.from_json(Compiled, answer)
            if kind == "Compiled"
            else wire.from_json(Failure, answer)
        )
    for spec, row in zip(specs, recorded.results["cases"], strict=True):
        if spec not in resolved:
            state.compiled[spec] = CompiledVerdict(
                spec=spec, outcome=Outcome(row["outcome"]), failed=row["failed"], text=row["text"]
            )
    stored = compiling._stored(state, resolved)
    compiling._judge(state, resolved, found, stored, described)
    state.compiled = {spec: state.compiled[spec] for spec in specs}
    session = judge.judge_compiled_session(
        list(state.compiled.values()),
        asked_to_skip=given["skip"],
        missing=compiling._promised(state, asked, described),  # type: ignore[arg-type]
    )
    return report.compiled_document(tuple(state.compiled.values()), session, compilers)


def _compile_spec(row: Mapping[str, Any]) -> CompileSpec:
    spec = wire.from_json(StoredSpec, row["spec"]).spec
    return CompileSpec(topology=row["topology"], spec=spec, compiler=row["compiler"])


def _known(specs: Sequence[Spec], rows: Sequence[Any], kind: type[Any]) -> dict[Spec, Any]:
    """Those that were there, by their Spec."""
    return {
        spec: wire.from_json(kind, row)
        for spec, row in zip(specs, rows, strict=True)
        if row is not None
    }


def _all(kind: type[Any], rows: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(wire.from_json(kind, row) for row in rows)
