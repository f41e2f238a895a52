"""Launches that gave no time: what a dead, wrong or memory-less launch makes of a case."""

from __future__ import annotations

from busbw.model import (
    Failure,
    FailureKind,
    FoundBy,
    Measurement,
    Outcome,
    Spec,
    Verdict,
    bytes_text,
)


def broken(spec: Spec, measurement: Measurement, whose: str = "") -> Verdict | None:
    """FAILED for a dead or wrong launch and for memory that sufficed in some launches only.

    `whose` measurement it is, such as ``the reference: ``, where that must be said.
    """
    failures, launches = measurement.failures, len(measurement.runs) + len(measurement.failures)
    hard = [f for f in failures if f.kind is not FailureKind.OUT_OF_MEMORY]
    if launches == 0:
        return Verdict(
            spec=spec, outcome=Outcome.FAILED, failed=True, text=f"{whose}it was not measured"
        )
    if hard:
        text = (
            f"{whose}{_kind_text(hard[0])} in {len(hard)} of {launches} launches: {hard[0].message}"
        )
        return _failed(spec, text, hard[0])
    if failures and measurement.runs:
        text = (
            f"{whose}out of memory in {len(failures)} of {launches} launches: {failures[0].message}"
        )
        return _failed(spec, text, failures[0])
    return None


def _failed(spec: Spec, text: str, failure: Failure) -> Verdict:
    return Verdict(spec=spec, outcome=Outcome.FAILED, failed=True, text=text, failure=failure)


def _kind_text(failure: Failure) -> str:
    return failure.kind.value.lower().replace("_", " ")


def memory_text(failure: Failure) -> str:
    """Needed and available bytes, and how it was found."""
    how = {
        FoundBy.PREDICTED: "predicted before touching memory",
        FoundBy.RAISED: "raised by the framework",
        FoundBy.KILLED: "the kernel killed the worker",
    }[failure.found or FoundBy.RAISED]
    parts = []
    if failure.needed_bytes is not None:
        parts.append(f"needs {bytes_text(failure.needed_bytes)}")
    if failure.available_bytes is not None:
        parts.append(f"{bytes_text(failure.available_bytes)} available")
    return f"{', '.join(parts) or failure.message} ({how})"


def only_at_the_moment(failure: Failure) -> bool:
    """A prediction that only the memory in use right now brought about."""
    return (
        failure.found is FoundBy.PREDICTED
        and failure.needed_bytes is not None
        and failure.capacity_bytes is not None
        and failure.needed_bytes <= failure.capacity_bytes
    )
