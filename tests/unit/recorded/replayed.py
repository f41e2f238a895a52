"""A recorded session's launches, judged again. No test lives here.

What stands in the results is read back; what the options said is handed to the judge as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from busbw import wire
from busbw.baselines.store import find_baseline, find_published_bandwidth
from busbw.judge.policy import POLICIES
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, Measurement, MeasurementPlan, Run
from busbw.model.machine import Environment, EnvironmentKey
from busbw.model.verdict import Verdict
from busbw.model.words import DeviceClass, Outcome, SessionOutcome
from busbw.session.judge import judge_measured_session
from busbw.session.options import Options
from busbw.session.record import results_document
from busbw.session.resolve import read_earlier_sessions
from busbw.session.state import CollectedSession, JudgedSession, MeasuredSession, TimedJob
from tests.helpers.recorded_sessions import Recorded

# After every baseline that was recorded.
BEGAN = datetime(2027, 1, 1, tzinfo=UTC)


def results(recorded: Recorded, root: Path) -> dict[str, Any]:
    """Return the results of `recorded`, judged now, with its baselines below `root`."""
    if recorded.is_compiled:
        # The extension can be deleted.
        from tests.unit.recorded import compiled_again

        return compiled_again.compiled(recorded, root)
    return _measured(recorded, root)


def _measured(recorded: Recorded, root: Path) -> dict[str, Any]:
    inputs = recorded.inputs
    specs = tuple(wire.from_json(CaseSpec, row) for row in inputs["specs"])
    rows = dict(zip(specs, recorded.results["cases"], strict=True))
    jobs = _jobs(inputs, specs, root)
    environment = wire.from_json(Environment, recorded.results["environment"])
    device = DeviceClass(inputs["device"])
    slice_keys = _by_spec(specs, inputs["slice_keys"], EnvironmentKey)
    target = SimpleNamespace(
        device=device, unreached=inputs["unreached"], key_with_device_shape=slice_keys.__getitem__
    )
    machine = SimpleNamespace(target=target, probes=())
    options = options_of(inputs, baselines=root, history=None)
    paired = inputs["settings"]["paired"]
    keys = [job.key for job in jobs.values()]
    collected = CollectedSession(options=options, began=BEGAN)
    measured = MeasuredSession(
        options=collected.options,
        began=collected.began,
        machine=machine,  # type: ignore[arg-type]
        specs=specs,
        jobs=jobs,
        skipped_verdicts={
            spec: Verdict(
                spec=spec, outcome=Outcome(row["outcome"]), failed=row["failed"], text=row["text"]
            )
            for spec, row in rows.items()
            if spec not in jobs
        },
        environment=environment,
        plan=wire.from_json(MeasurementPlan, inputs["plan"]),
        levels={} if paired else read_earlier_sessions(collected, keys, POLICIES[device]),
        measurements={
            spec: Measurement(
                case=job.case,
                runs=read_all(Run, rows[spec]["launches"]),
                failures=read_all(Failure, rows[spec]["failures"]),
            )
            for spec, job in jobs.items()
        },
        references={
            spec: Measurement(case=job.case, runs=read_all(Run, rows[spec]["reference_launches"]))
            for spec, job in jobs.items()
        },
    )
    document = results_document(with_skip_option(judge_measured_session(measured), inputs["skip"]))
    assert isinstance(document, dict)
    return document


def with_skip_option(judged: JudgedSession, option: str) -> JudgedSession:
    """Return `judged` as the plugin changes it if the user skips benchmarks by `option`."""
    if not option:
        return judged
    verdict = judged.session_verdict.with_failure(SessionOutcome.NO_VERDICT, option)
    return replace(judged, session_verdict=verdict)


def _jobs(
    inputs: Mapping[str, Any], specs: Sequence[CaseSpec], root: Path
) -> dict[CaseSpec, TimedJob]:
    keys = _by_spec(specs, inputs["keys"], EnvironmentKey)
    jobs = {
        spec: TimedJob(case=case, key=keys[spec])
        for spec, case in _by_spec(specs, inputs["cases"], Case).items()
    }
    if inputs["settings"]["paired"]:
        return jobs
    limit = inputs["settings"]["memory_limit_bytes"]
    return {
        spec: replace(
            job,
            baseline_search=find_baseline(
                root, job.key, job.case, artificial_memory_limit_bytes=limit
            ),
            published=find_published_bandwidth(root, job.key, job.case),
        )
        for spec, job in jobs.items()
    }


def options_of(inputs: Mapping[str, Any], **more: Any) -> Options:
    """Return what the options of a recorded session were."""
    recorded = inputs["settings"]
    options = SimpleNamespace(
        is_paired=bool(recorded.get("paired")),
        require_baselines=recorded["require_baselines"],
        update_baselines=recorded["update_baselines"] or "",
        accept_regression=recorded.get("accept_regression") or "",
        memory_limit=recorded.get("memory_limit_bytes"),
        fail_above=None,
        ranks=4,
        absent_frameworks=tuple(recorded.get("absent_frameworks", ())),
        writes_baselines=False,
        **{"history": None, "stacks": {}, "launches": 3, "extra": {}, **more},
    )
    return options  # type: ignore[return-value]


def _by_spec(
    specs: Sequence[CaseSpec], rows: Sequence[Any], kind: type[Any]
) -> dict[CaseSpec, Any]:
    """Return those that were there, by their CaseSpec."""
    return {
        spec: wire.from_json(kind, row)
        for spec, row in zip(specs, rows, strict=True)
        if row is not None
    }


def read_all(kind: type[Any], rows: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(wire.from_json(kind, row) for row in rows)
