"""A session as one JSON document, measured or compiled; the schemas are published in docs/."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import busbw
from busbw import wire
from busbw.model import variables
from busbw.model.case import Case, Spec
from busbw.model.launch import LaunchId, Measurement, Plan
from busbw.model.machine import Compiler, Environment, Protocol
from busbw.model.stored import StoredCase, StoredSpec
from busbw.model.verdict import CompiledVerdict, SessionVerdict, Verdict
from busbw.model.words import payload_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# What a document says that it is.
RESULTS = "busbw results"
COMPILED_RESULTS = "busbw compiled results"

# Of a session that measured.
_SESSION_FIELDS = ("outcome", "outcomes", "text", "stack", "machine")

# Of a compiled case, in the order in which the document has them.
_COMPILED_FIELDS = (
    *("spec", "outcome", "failed", "text", "case", "release", "now", "baseline", "differences"),
    *("failure", "expected", "notes"),
)


def results(
    *,
    environment: Environment,
    plan: Plan,
    session: SessionVerdict | None,
    verdicts: Sequence[Verdict],
    measurements: Mapping[Spec, Measurement],
    measuring_s: float,
    spent_s: Mapping[str, float],
    quantiles_s: Mapping[Spec, Sequence[Mapping[str, float]]],
    began: datetime,
    references: Mapping[Spec, Measurement] = MappingProxyType({}),
    process_hosts: Sequence[str] = (),
) -> dict[str, object]:
    """The document of a session that `began` then: dicts, lists, strings, numbers and None.

    `quantiles_s` are those of each launch's samples, as `stats.quantiles_s` gives them;
    `references` is what was measured in turn with the cases, if anything was, and `process_hosts`
    the name of each process's host, of a group.
    """
    return {
        "document": RESULTS,
        "version": wire.VERSION,
        "busbw": busbw.__version__,
        "began": began.isoformat(timespec="seconds"),
        "environment": fields_of(environment),
        "process_hosts": list(process_hosts),
        "plan": fields_of(plan),
        "measuring_s": measuring_s,
        "spent_s": dict(spent_s),
        "session": _picked(session, *_SESSION_FIELDS) if session else None,
        "cases": [
            _case(verdict, measurements.get(verdict.spec), references.get(verdict.spec))
            | {"quantiles_s": [dict(one) for one in quantiles_s.get(verdict.spec, ())]}
            for verdict in verdicts
        ],
    }


def without_homes(document: object, home: str) -> object:
    """`document` with ``~`` for every home directory, in paths, messages and the ends of logs."""
    if isinstance(document, dict):
        return {key: without_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [without_homes(value, home) for value in document]
    return variables.without_homes(document, home) if isinstance(document, str) else document


def is_results(text: str) -> bool:
    """Whether `text` is the document of a session, measured or compiled, of this format."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    if not isinstance(document, dict) or document.get("version") != wire.VERSION:
        return False
    return document.get("document") in (RESULTS, COMPILED_RESULTS)


def _case(
    verdict: Verdict, measurement: Measurement | None, reference: Measurement | None
) -> dict[str, object]:
    case, ceiling = verdict.case, verdict.ceiling
    payload = payload_text(verdict.spec.payload_bytes)
    return {
        "id": verdict.spec.id,
        "case": {**fields_of(StoredCase.of(case)), "payload": payload} if case else None,
        **_picked(verdict, "outcome", "failed", "expected", "text"),
        "measured": _plain(verdict.now),
        "ceiling": {**fields_of(ceiling), "share": verdict.ceiling_share} if ceiling else None,
        **_picked(verdict, "baseline", "ratio", "ratio_interval", "ratio_error", "limit"),
        **_picked(verdict, "modes", "tail_ratio", "provisional", "failure", "notes"),
        "straggler": _plain(verdict.straggler),
        "published": _plain(verdict.reference),
        "launches": _plain(measurement.runs) if measurement else [],
        "failures": _plain(measurement.failures) if measurement else [],
        "reference_launches": _plain(reference.runs) if reference else [],
    }


def compiled_document(
    verdicts: Sequence[CompiledVerdict],
    session: SessionVerdict | None,
    compilers: Sequence[Compiler],
    *,
    began: datetime,
    host: str,
) -> dict[str, object]:
    """The session that `began` then on `host`, as plain data; docs/compiled.schema.json."""
    return {
        "document": COMPILED_RESULTS,
        "version": wire.VERSION,
        "busbw": busbw.__version__,
        "began": began.isoformat(timespec="seconds"),
        "host": host,
        "session": _picked(session, "outcome", "outcomes", "text") if session else None,
        "compilers": [fields_of(one) for one in compilers],
        "cases": [{"id": one.spec.id, **_picked(one, *_COMPILED_FIELDS)} for one in verdicts],
    }


def _picked(value: DataclassInstance, *names: str) -> dict[str, object]:
    """The named fields of a frozen value, in this order."""
    return {name: _plain(getattr(value, name)) for name in names}


def fields_of(value: DataclassInstance) -> dict[str, object]:
    """A frozen value as plain dicts and lists; an enum as its value."""
    return _picked(value, *(one.name for one in dataclasses.fields(value)))


def _plain(value: object) -> object:
    """`value` as plain data; a Protocol or a LaunchId is its text."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (Protocol, LaunchId)):
        return value.text
    if isinstance(value, Case):
        return fields_of(StoredCase.of(value))
    if isinstance(value, Spec):
        return fields_of(StoredSpec.of(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (tuple, list)) else value
