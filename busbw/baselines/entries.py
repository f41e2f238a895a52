"""A Case and what was measured of it as an entry of a file, and an entry as a Baseline.

Values to values: seconds become microseconds of six digits here and nowhere else. No file is
known, and nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busbw.model import (
    Baseline,
    BaselineSession,
    Case,
    CaseKey,
    EnvironmentKey,
    Measurement,
    Protocol,
    payload_text,
)
from busbw.workloads import Collective

from .document import SCHEMA, Document, Entry, Status, StoredFile, StoredLine, StoredSession


@dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """When baselines are written, at which commit (may be empty), and why (may be empty).

    `surroundings` are what else is told of the machine.
    """

    date: str
    commit: str = ""
    reason: str = ""
    surroundings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What a session measured of a case and wants stored, seconds for each launch.

    No times: it was out of memory. With `append` the level did not change, so that the session
    joins those that are stored; otherwise it takes their place. `memory_limit_bytes` is the
    session's artificial limit, if it had one.
    """

    key: EnvironmentKey
    measurement: Measurement
    times_s: tuple[float, ...]
    anchors_s: tuple[float, ...] = ()
    append: bool = False
    memory_limit_bytes: int | None = None


def case_of(
    document: StoredFile, entry: StoredLine, protocol: Protocol, file_name: str = ""
) -> Case:
    """The Case that `entry` is about; whether it is a training step's, its file's name says."""
    named = CaseKey.of_file(file_name)
    kind = type(named.workload) if named is not None else Collective
    return Case(
        framework=document.framework,
        payload_bytes=entry.payload_bytes,
        workload=kind(
            collective=document.collective,
            reduce_op=entry.reduce_op,
            placement=entry.placement,
            axes=entry.axes,
        ),
        strategy=document.strategy,
        dtype=entry.dtype,
        ranks=document.environment.ranks,
        mesh=document.environment.mesh,
        protocol=protocol,
    )


def baseline_of(case: Case, entry: Entry) -> Baseline:
    """What is stored, with the protocol that it was measured with."""
    newest = entry.sessions[-1] if entry.sessions else entry
    return Baseline(
        case=replace(case, protocol=entry.protocol),
        oom=entry.status is Status.OOM,
        sessions=tuple(_session_of(stored) for stored in entry.sessions),
        date=newest.date,
        versions=newest.versions,
        needed_bytes=entry.needed_bytes,
        available_bytes=entry.available_bytes,
        memory_limit_bytes=entry.memory_limit_bytes,
        pinned_s=entry.pinned_us / 1e6 if entry.pinned_us is not None else None,
        pinned_date=entry.pinned_date,
    )


def _session_of(stored: StoredSession) -> BaselineSession:
    return BaselineSession(
        date=stored.date,
        commit=stored.commit,
        versions=stored.versions,
        times_s=tuple(time_us / 1e6 for time_us in stored.times_us),
        anchors_s=tuple(anchor_us / 1e6 for anchor_us in stored.anchors_us),
        surroundings=stored.surroundings,
    )


def entry_of(accepted: Accepted, occasion: Occasion) -> Entry:
    """The entry with this session alone; its pin is not set yet."""
    case, measurement = accepted.measurement.case, accepted.measurement
    versions = measurement.runs[0].versions if measurement.runs else {}
    failure = measurement.failures[0] if measurement.failures else None
    oom = not accepted.times_s
    return Entry(
        dtype=case.dtype,
        reduce_op=case.reduce_op,
        placement=case.placement,
        axes=case.axes,
        payload=payload_text(case.payload_bytes),
        payload_bytes=case.payload_bytes,
        status=Status.OOM if oom else Status.OK,
        sessions=() if oom else (_stored(accepted, occasion, versions),),
        needed_bytes=failure.needed_bytes if failure else None,
        available_bytes=failure.available_bytes if failure else None,
        memory_limit_bytes=accepted.memory_limit_bytes if oom else None,
        protocol=case.protocol,
        date=occasion.date if oom else "",
        versions=versions if oom else {},
    )


def _stored(accepted: Accepted, occasion: Occasion, versions: Mapping[str, str]) -> StoredSession:
    return StoredSession(
        date=occasion.date,
        commit=occasion.commit,
        times_us=tuple(rounded_us(1e6 * time_s) for time_s in accepted.times_s),
        anchors_us=tuple(rounded_us(1e6 * anchor_s) for anchor_s in accepted.anchors_s),
        versions=versions,
        surroundings=occasion.surroundings,
    )


def rounded_us(time_us: float) -> float:
    """Six significant digits: no clock gives more, and a review has less to read."""
    return float(f"{time_us:.6g}")


def empty_document(key: EnvironmentKey, case: Case) -> Document:
    """The file of `case` on `key` before anything is in it."""
    return Document(
        schema=SCHEMA,
        environment=key,
        framework=case.framework,
        collective=case.collective,
        strategy=case.strategy,
        entries=(),
    )
