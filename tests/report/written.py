"""Results of sessions, measured and compiled, for tests that read them back; no test lives here."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from busbw.model.case import Spec
from busbw.model.machine import Compiler
from busbw.model.verdict import Ceiling, Program, Reference, SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.reading import CompiledSession, Session, read_results
from busbw.report.results import results
from tests import build

SOURCE = "v2-8: a paper, 2019"


def verdict(payload_bytes: int, gb_per_s: float | None, **changes: Any) -> Verdict:
    """A case of that payload and busbw with a baseline, a ceiling and a published figure.

    Without a rate it is out of memory. Fields of the case and of the verdict may be changed.
    """
    own = ("mesh", "axes", "collective", "reduce_op")
    ours = ("framework", "strategy", "dtype", "ranks", "step", *own)
    of_case = {name: changes.pop(name) for name in ours if name in changes}
    case = build.case(payload_bytes=payload_bytes, **of_case)
    spec = Spec(
        framework=case.framework,
        workload=case.workload,
        payload_bytes=payload_bytes,
        strategy=case.strategy,
        dtype=case.dtype,
    )
    now = None if gb_per_s is None else build.summary(busbw_gb_per_s=gb_per_s)
    ordinary = build.verdict(
        Outcome.PASS if now else Outcome.OUT_OF_MEMORY,
        spec=spec,
        case=case,
        now=now,
        baseline=now and build.summary(busbw_gb_per_s=2 * now.busbw_gb_per_s),
        limit=1.25,
        ceiling=Ceiling(bytes_per_s=5e10, most_bytes_per_s=6e10, text="links", sure=True),
        published=Reference(source=SOURCE, oom=False, algbw_gb_per_s=3.0),
    )
    return replace(ordinary, **changes)


def document(
    *verdicts: Verdict, began: datetime = build.BEGAN, **environment: Any
) -> dict[str, Any]:
    """The document of a session with these verdicts, as its text holds it."""
    written = results(
        began=began,
        host="here",
        environment=build.environment(**environment),
        plan=build.plan(),
        session=None,
        verdicts=verdicts,
        measuring_s=1.0,
    )
    read: dict[str, Any] = json.loads(json.dumps(written))
    return read


def session(*verdicts: Verdict, name: str = "night.json", **changes: Any) -> Session:
    """The same, read back."""
    found = read_results(json.dumps(document(*verdicts, **changes)), name)
    assert isinstance(found, Session)
    return found


RELEASE = "libtpu 0.0.42"


def program(payload_bytes: int, peak_bytes: int | None, **changes: Any) -> Verdict:
    """A case compiled for v5e:2x4 that passed; without a peak it is out of memory."""
    case = build.case(payload_bytes=payload_bytes, ranks=8)
    topology = changes.pop("topology", "v5e:2x4")
    spec = Spec(
        framework="jax", payload_bytes=payload_bytes, workload=case.workload, topology=topology
    )
    now = None if peak_bytes is None else build.compiled(peak_bytes=peak_bytes)
    found = Program(release=RELEASE, now=now, baseline=build.compiled_baseline(now, case=case))
    of_program = {one.name: changes.pop(one.name) for one in fields(found) if one.name in changes}
    ordinary = Verdict(
        spec=spec,
        outcome=Outcome.OUT_OF_MEMORY if now is None else Outcome.PASS,
        failed=False,
        text="as before",
        case=case,
        program=replace(found, **of_program),
    )
    return replace(ordinary, **changes)


def compiled_text(
    *verdicts: Verdict, missing: str = "", outcome: SessionOutcome = SessionOutcome.FINE
) -> str:
    """The document of a session of these verdicts."""
    compilers = [Compiler(topology="v5e:2x4", release=RELEASE)]
    compilers += [Compiler(topology="h100:8", missing=missing)] if missing else []
    answer = SessionVerdict(outcomes=(outcome,), text="because")
    document = results(
        verdicts=verdicts, session=answer, compilers=compilers, began=build.BEGAN, host="laptop"
    )
    return json.dumps(document)


def compiled_session(*verdicts: Verdict, **changes: Any) -> CompiledSession:
    """The same, read back."""
    found = read_results(compiled_text(*verdicts, **changes), "compiled.json")
    assert isinstance(found, CompiledSession)
    return found
