"""A session as one JSON document; its schema is published in docs/results.schema.json.

Schema history:
1  the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from busbw import wire
from busbw.model import (
    Case,
    Environment,
    Measurement,
    Plan,
    SessionVerdict,
    Spec,
    Summary,
    Verdict,
    payload_text,
)

SCHEMA = 1


def results(
    *,
    environment: Environment,
    plan: Plan,
    session: SessionVerdict | None,
    verdicts: Sequence[Verdict],
    measurements: Mapping[Spec, Measurement],
    measuring_s: float,
) -> dict[str, Any]:
    """The document: plain dicts, lists, strings, numbers and None."""
    return {
        "schema": SCHEMA,
        "environment": wire.to_json(environment),
        "plan": wire.to_json(plan),
        "measuring_s": measuring_s,
        "session": wire.to_json(session),
        "cases": [_case(verdict, measurements.get(verdict.spec)) for verdict in verdicts],
    }


def _case(verdict: Verdict, measurement: Measurement | None) -> dict[str, Any]:
    interval = verdict.ratio_interval
    return {
        "id": verdict.spec.id,
        "case": _fields(verdict.case) if verdict.case else None,
        "outcome": verdict.outcome.value,
        "failed": verdict.failed,
        "expected": verdict.expected,
        "text": verdict.text,
        "measured": _summary(verdict.now),
        "baseline": _summary(verdict.baseline),
        "ratio": verdict.ratio,
        "ratio_interval": list(interval) if interval else None,
        "limit": verdict.limit,
        "provisional": verdict.provisional,
        "failure": wire.to_json(verdict.failure),
        "published": wire.to_json(verdict.reference),
        "launches": [wire.to_json(run) for run in measurement.runs] if measurement else [],
        "failures": [wire.to_json(one) for one in measurement.failures] if measurement else [],
    }


def _fields(case: Case) -> dict[str, Any]:
    fields: dict[str, Any] = wire.to_json(case)
    return {**fields, "payload": payload_text(case.payload_bytes)}


def _summary(summary: Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    found: dict[str, Any] = wire.to_json(summary)
    return found
