"""Builders for tests: each a whole, ordinary value, of which a test changes what it needs.

No test lives here, and nothing here reads a file, a clock or a device.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from busbw.baselines.updates import AcceptedCase
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, LaunchId, Measurement, MeasurementPlan, Proof, Run
from busbw.model.machine import DeviceSet, Environment, EnvironmentKey, Probe, Protocol
from busbw.model.stored import Baseline, Record
from busbw.model.verdict import LaunchTimeSummary, Verdict
from busbw.model.words import Clock, DeviceClass, FailureKind, Outcome

DATE = "2026-01-02"
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VERSIONS = {"jax": "0.10.0"}


def spec(**changes: Any) -> CaseSpec:
    """Build an all-reduce of 4 KiB in float32, as requested."""
    return replace(CaseSpec(framework="jax", payload_bytes=4096), **changes)


def case(**changes: Any) -> Case:
    """Build the same all-reduce on four ranks; its protocol may be given as text."""
    ordinary = Case(
        framework="jax",
        payload_bytes=4096,
        strategy="psum",
        dtype="float32",
        ranks=4,
        mesh="",
        protocol=Protocol(clock=Clock.HOST, program="chain2"),
    )
    if isinstance(changes.get("protocol"), str):
        changes["protocol"] = Protocol.parse(changes["protocol"])
    return replace(ordinary, **changes)


def plan(**changes: Any) -> MeasurementPlan:
    """Three launches of four samples."""
    return replace(MeasurementPlan(samples=4), **changes)


def proof() -> Proof:
    """Build the proof of one all-reduce over all four ranks."""
    return Proof(
        collectives={"all-reduce": 1},
        payload_copies=0,
        algorithm="psum",
        array_bytes=4096,
        groups=((0, 1, 2, 3),),
    )


def run(*samples_s: float, **changes: Any) -> Run:
    """Build a launch with these samples; one of 1 ms if none are given."""
    ordinary = Run(
        launch=LaunchId.parse("1.0"),
        iterations=8,
        samples_s=samples_s or (1e-3,),
        compile_s=0.1,
        values_checked=4096,
        proof=proof(),
        clock=Clock.HOST,
        framework_path="/somewhere/jax",
        versions=VERSIONS,
    )
    return replace(ordinary, **_with_launch(changes))


def _with_launch(changes: dict[str, Any]) -> dict[str, Any]:
    """Parse a launch that is given as text."""
    launch = changes.get("launch")
    return {**changes, "launch": LaunchId.parse(launch)} if isinstance(launch, str) else changes


def failure(kind: FailureKind = FailureKind.CRASHED, **changes: Any) -> Failure:
    """Build a launch that gave no Run."""
    ordinary = Failure(kind=kind, message="it broke", launch=LaunchId.parse("2.0"))
    return replace(ordinary, **_with_launch(changes))


def out_of_memory(**changes: Any) -> Failure:
    """Build a launch that ran out of memory, as the framework said."""
    return failure(FailureKind.OUT_OF_MEMORY, **changes)


def measurement(*times_s: float, failures: tuple[Failure, ...] = (), **changes: Any) -> Measurement:
    """Build one launch for each of these times, and these failures."""
    runs = tuple(run(time_s, launch=f"{i + 1}.0") for i, time_s in enumerate(times_s))
    return Measurement(case=case(**changes), runs=runs, failures=failures)


def session(*times_s: float, **changes: Any) -> Record:
    """Build a session of these launch times; without times its case was out of memory."""
    times_us = tuple(float(f"{1e6 * time_s:.12g}") for time_s in times_s)
    moment = f"{changes.pop('date', DATE)}T03:00:00Z"
    return replace(Record(moment=moment, versions=VERSIONS, times_us=times_us), **changes)


def accepted(
    measurement: Measurement, record: Record | None = None, **changes: Any
) -> AcceptedCase:
    """Build what was measured, in the session of the `record`."""
    times_s = [run.samples_s[0] for run in measurement.runs]
    versions = measurement.runs[0].versions if measurement.runs else {}
    usual = session(
        *times_s, moment=(record or session()).moment, commit=record.commit if record else ""
    )
    ordinary = AcceptedCase(
        key=key(), measurement=measurement, record=replace(usual, versions=versions)
    )
    return replace(ordinary, **changes)


def baseline(*times_s: float, **changes: Any) -> Baseline:
    """Build a baseline of one session with these times; without times it is out of memory."""
    return pooled(session(*times_s), **changes)


def pooled(*sessions: Record, **changes: Any) -> Baseline:
    """Build a baseline of these sessions, pinned at its level; `changes` are the case's."""
    ordinary = Baseline(case=case(**changes), records=sessions)
    pinned = None if ordinary.is_out_of_memory else DATE
    return replace(ordinary, pinned_us=ordinary.level_us, pinned_date=pinned)


def summary(**changes: Any) -> LaunchTimeSummary:
    """Three launches around 1 ms."""
    ordinary = LaunchTimeSummary(
        times_s=(1e-3, 1.1e-3, 0.9e-3),
        median_s=1e-3,
        best_s=0.9e-3,
        worst_s=1.1e-3,
        spread=0.15,
        algbw_gb_per_s=4.0,
        busbw_gb_per_s=6.0,
    )
    return replace(ordinary, **changes)


def verdict(outcome: Outcome = Outcome.PASS, **changes: Any) -> Verdict:
    """Build a verdict with the case and today's numbers."""
    ordinary = Verdict(
        spec=spec(), outcome=outcome, failed=False, text="as before", case=case(), now=summary()
    )
    return replace(ordinary, **changes)


def key(**changes: Any) -> EnvironmentKey:
    """Four virtual devices on two cores."""
    return replace(EnvironmentKey(device_kind="AMD EPYC", ranks=4, cores=2), **changes)


def environment(**changes: Any) -> Environment:
    """Build the environment of a CPU that was chosen for want of another device."""
    ordinary = Environment(
        key=key(), device=DeviceClass.CPU, reason="asked for", versions={"jax": {"jax": "0.10.0"}}
    )
    return replace(ordinary, **changes)


def device_set(device: DeviceClass = DeviceClass.CPU, **changes: Any) -> DeviceSet:
    """Four devices of this class, as JAX finds them; on a CPU any other number can be had."""
    virtual = device is DeviceClass.CPU
    ordinary = DeviceSet(
        device=device,
        device_kind="AMD EPYC" if virtual else device.value.upper(),
        ranks=4,
        any_ranks=virtual,
        program="chain2",
        strategies={"default": "psum", "psum": "psum"},
        cores=2 if virtual else None,
    )
    return replace(ordinary, **changes)


def probe(*devices: DeviceSet, framework: str = "jax", **missing: str) -> Probe:
    """Build what one framework finds, and its words for what is missing."""
    return Probe(
        framework=framework,
        framework_path=f"/somewhere/{framework}",
        devices=devices,
        reason_by_missing_device=missing,
        versions={framework: "1"},
    )
