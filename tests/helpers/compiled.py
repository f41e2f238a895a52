"""Values of compile-only checks for tests; no test lives here."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from busbw import __version__, wire
from busbw.extensions.compiled.results import (
    CompiledResults,
    case_record_of,
)
from busbw.extensions.compiled.worker import (
    CompiledBaseline,
    CompiledComparison,
    CompiledProgram,
    CompiledVerdict,
    Compiler,
    CompileSpec,
)
from busbw.model.case import dataclass_from
from busbw.model.field_types import moment_text
from busbw.model.verdict import SessionVerdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.results import read_results
from tests.helpers import build

RELEASE = "libtpu 0.0.42"


def compiled(**changes: Any) -> CompiledProgram:
    """Return one all-reduce in each turn, by a ring of two colors."""
    usual: dict[str, Any] = {
        "collectives": {"all-reduce": 1},
        "groups": "1x8",
        "algorithm": {"strategy": "Ring", "colors": "2"},
        "temporary_bytes": 0,
        "peak_bytes": 4096,
    }
    return CompiledProgram(**usual | changes)


def baseline(stored: CompiledProgram | None = None, **changes: Any) -> CompiledBaseline:
    """Return what was stored of a case; None: it was out of memory."""
    usual: dict[str, Any] = {
        "case": build.case(),
        "compiled": stored,
        "date": "2026-11-01",
        "release": "libtpu 0.0.40",
    }
    return CompiledBaseline(**usual | changes)


def spec(topology: str = "v5e:2x4", **changes: Any) -> CompileSpec:
    """Return what is asked for, for eight chips."""
    return dataclass_from(CompileSpec, build.spec(**changes), topology=topology)


def program(payload_bytes: int, peak_bytes: int | None, **changes: Any) -> CompiledVerdict:
    """Return a case compiled for v5e:2x4 that passed; without a peak it is out of memory."""
    case = build.case(payload_bytes=payload_bytes, ranks=8)
    now = None if peak_bytes is None else compiled(peak_bytes=peak_bytes)
    compared = CompiledComparison(release=RELEASE, now=now, baseline=baseline(now, case=case))
    of_program = {
        field.name: changes.pop(field.name) for field in fields(compared) if field.name in changes
    }
    ordinary = CompiledVerdict(
        spec=spec(changes.pop("topology", "v5e:2x4"), payload_bytes=payload_bytes),
        outcome=Outcome.OUT_OF_MEMORY if now is None else Outcome.PASS,
        failed=False,
        text="as before",
        case=case,
        program=replace(compared, **of_program),
    )
    return replace(ordinary, **changes)


def text(
    *verdicts: CompiledVerdict, missing: str = "", outcome: SessionOutcome = SessionOutcome.PASS
) -> str:
    """Return the document of a session of these verdicts."""
    compilers = [Compiler(topology="v5e:2x4", release=RELEASE)]
    compilers += [Compiler(topology="h100:8", missing=missing)] if missing else []
    document = CompiledResults(
        busbw=__version__,
        began=moment_text(build.BEGAN),
        host="laptop",
        session=SessionVerdict(outcomes=(outcome,), text="because"),
        compilers=tuple(compilers),
        cases=tuple(map(case_record_of, verdicts)),
    )
    return json.dumps(wire.to_json(document))


def session(*verdicts: CompiledVerdict, **changes: Any) -> CompiledResults:
    """Return the same, read back."""
    document = read_results(text(*verdicts, **changes))
    assert isinstance(document, CompiledResults)
    return document
