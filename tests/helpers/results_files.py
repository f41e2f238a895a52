"""Results of sessions, measured and compiled, for tests that read them back; no test lives here."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from busbw import __version__, wire
from busbw.model.case import CaseSpec, dataclass_from
from busbw.model.field_types import moment_text
from busbw.model.verdict import BandwidthCeiling, PublishedBandwidth, SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.results import Results, case_result, read_results
from tests.helpers import build

SOURCE = "v2-8: a paper, 2019"


def verdict(payload_bytes: int, gb_per_s: float | None, **changes: Any) -> Verdict:
    """Build a case of that payload and busbw with a baseline, a ceiling and a published rate.

    Without a rate it is out of memory. Fields of the case and of the verdict may be changed.
    """
    of_workload = ("mesh", "axes", "collective", "reduce_op")
    ours = ("framework", "strategy", "dtype", "ranks", "program", *of_workload)
    of_case = {name: changes.pop(name) for name in ours if name in changes}
    case = build.case(payload_bytes=payload_bytes, **of_case)
    spec = dataclass_from(CaseSpec, case, ranks=None, mesh="", clock="default")
    summary = None if gb_per_s is None else build.summary(busbw_gb_per_s=gb_per_s)
    ordinary = build.verdict(
        Outcome.PASS if summary else Outcome.OUT_OF_MEMORY,
        spec=spec,
        case=case,
        now=summary,
        baseline=summary and build.summary(busbw_gb_per_s=2 * summary.busbw_gb_per_s),
        limit=1.25,
        ceiling=BandwidthCeiling(bytes_per_s=5e10, most_bytes_per_s=6e10, text="links", sure=True),
        published=PublishedBandwidth(source=SOURCE, oom=False, algbw_gb_per_s=3.0),
    )
    return replace(ordinary, **changes)


def results(*verdicts: Verdict, **changes: Any) -> dict[str, Any]:
    """Build what a session that measured writes, as plain data.

    `own` has fields of it, and by CaseSpec the `measurements`, and the `references` in turn with
    them.
    """
    measured, theirs = changes.pop("measurements", {}), changes.pop("references", {})
    ordinary: dict[str, Any] = {
        "busbw": __version__,
        "began": moment_text(build.BEGAN),
        "host": "here",
        "environment": build.environment(),
        "process_hosts": (),
        "plan": build.plan(),
        "measuring_s": 1.0,
        "spent_s": {},
        "session": SessionVerdict(outcomes=(SessionOutcome.NO_VERDICT,), text="not judged"),
    }
    cases = []
    for row in verdicts:
        cases.append(case_result(row, measured.get(row.spec), theirs.get(row.spec)))
    document: dict[str, Any] = wire.to_json(Results(**ordinary | changes, cases=tuple(cases)))
    return document


def document(
    *verdicts: Verdict, began: datetime = build.BEGAN, **environment: Any
) -> dict[str, Any]:
    """Build the document of a session with these verdicts, as its text holds it."""
    about = build.environment(**environment)
    written = results(*verdicts, began=moment_text(began), environment=about)
    read: dict[str, Any] = json.loads(json.dumps(written))
    return read


def session(*verdicts: Verdict, **changes: Any) -> Results:
    """Build the document of a session, and read it back."""
    results = read_results(json.dumps(document(*verdicts, **changes)))
    assert isinstance(results, Results)
    return results
