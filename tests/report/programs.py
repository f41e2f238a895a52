"""Compiled sessions for tests of charts and pages; no test lives here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from busbw.model.case import CompileSpec, Spec
from busbw.model.machine import Compiler
from busbw.model.verdict import CompiledVerdict, SessionVerdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.reading import CompiledSession, read_results
from busbw.report.results import compiled_document
from tests import build

RELEASE = "libtpu 0.0.42"


def program(payload_bytes: int, peak_bytes: int | None, **changes: Any) -> CompiledVerdict:
    """A case compiled for v5e:2x4 that passed; without a peak it is out of memory."""
    case = build.case(payload_bytes=payload_bytes, ranks=8)
    topology = changes.pop("topology", "v5e:2x4")
    spec = Spec(framework="jax", payload_bytes=payload_bytes, workload=case.workload)
    now = None if peak_bytes is None else build.compiled(peak_bytes=peak_bytes)
    ordinary = CompiledVerdict(
        spec=CompileSpec(topology=topology, spec=spec),
        outcome=Outcome.OUT_OF_MEMORY if now is None else Outcome.PASS,
        failed=False,
        text="as before",
        case=case,
        release=RELEASE,
        now=now,
        baseline=build.compiled_baseline(now, case=case),
    )
    return replace(ordinary, **changes)


def compiled_text(
    *verdicts: CompiledVerdict, missing: str = "", outcome: SessionOutcome = SessionOutcome.FINE
) -> str:
    """The document of a session of these verdicts."""
    compilers = [Compiler(topology="v5e:2x4", release=RELEASE)]
    compilers += [Compiler(topology="h100:8", missing=missing)] if missing else []
    answer = SessionVerdict(outcomes=(outcome,), text="because")
    document = compiled_document(verdicts, answer, compilers, began=build.BEGAN, host="laptop")
    return json.dumps(document)


def compiled_session(*verdicts: CompiledVerdict, **changes: Any) -> CompiledSession:
    """The same, read back."""
    found = read_results(compiled_text(*verdicts, **changes), "compiled.json")
    assert isinstance(found, CompiledSession)
    return found
