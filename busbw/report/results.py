"""A session as one JSON document, measured or compiled: what is declared here is what is written.

`busbw.report.reading` reads it back; the schemas in docs/ are generated from these classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import busbw
from busbw import wire
from busbw.model import variables
from busbw.model.case import Spec
from busbw.model.launch import Compiled, Failure, Measurement, Plan, Run
from busbw.model.machine import Compiler, Environment
from busbw.model.stored import StoredCase, StoredSpec, converted
from busbw.model.verdict import (
    Answer,
    Ceiling,
    CompiledVerdict,
    Difference,
    Reference,
    SessionVerdict,
    Straggler,
    Summary,
    Verdict,
)
from busbw.model.words import Outcome, SessionOutcome, payload_text

# What a document says that it is.
RESULTS = "busbw results"
COMPILED_RESULTS = "busbw compiled results"

# Fields of documents whose numbers are above 0. Of others they are 0 or more, but for some.
ABOVE_0 = frozenset(
    {
        *("times_s", "median_s", "best_s", "worst_s", "samples_s", "clocks_s", "rank_times_s"),
        *("over_ranks_s", "epochs_s", "modes", "timeout_s", "quantiles_s"),
        *("algbw_gb_per_s", "bytes_per_s", "most_bytes_per_s", "share", "clock_mhz"),
        *("ratio", "ratio_interval", "limit", "tail_ratio", "injected_ratio"),
    }
)
SIGNED = frozenset({"seed", "exit_code", "process_times_s", "over_processes_s"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCase(StoredCase):
    """A case as resolved; `payload` is `payload_bytes` as people write it: 1K is 1024 bytes."""

    payload: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReachedCeiling(Ceiling):
    """What the hardware allows; `share` is the measured busbw over `bytes_per_s`, 1 is all of it.

    `most_bytes_per_s` is what no algorithm exceeds, with adding up in the switch where it can.
    """

    share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """One case: what was measured, what it was compared with, and the answer.

    `ratio` is today's time over the baseline's, or the candidate's over the reference's, with 95 %
    confidence within `ratio_interval` or from the best to the worst launch, and with the standard
    error `ratio_error` of its logarithm. `modes` are the seconds of launches in each of two modes;
    `tail_ratio` is by how much p90 over p25 grew. `published` is shown and never judged. `failures`
    are launches that gave no time, and `reference_launches` those of the other side of a pair.
    """

    id: str
    case: NamedCase | None
    outcome: Outcome
    failed: bool
    expected: bool
    text: str
    measured: Summary | None
    ceiling: ReachedCeiling | None
    baseline: Summary | None
    ratio: float | None
    ratio_interval: tuple[float, float] | None
    ratio_error: float | None
    limit: float | None
    modes: tuple[tuple[float, ...], ...]
    tail_ratio: float | None
    provisional: bool
    failure: Failure | None
    notes: tuple[str, ...]
    straggler: Straggler | None
    published: Reference | None
    launches: tuple[Run, ...]
    failures: tuple[Failure, ...]
    reference_launches: tuple[Run, ...]
    quantiles_s: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledAnswer:
    """The answer for the session: `outcomes` are all that hold, and the first is its word."""

    outcome: SessionOutcome
    outcomes: tuple[SessionOutcome, ...]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredAnswer(CompiledAnswer):
    """The same, and where a locked reference was measured in turn, which of the two is slower."""

    stack: Answer | None
    machine: Answer | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedProgram:
    """What was to be compiled; `compiler` is empty for the only one."""

    topology: str
    spec: StoredSpec
    compiler: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredProgram:
    """What it was compared with; `compiled` is null where it was out of memory."""

    case: StoredCase
    compiled: Compiled | None
    date: str
    release: str
    needed_bytes: int | None
    available_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramResult:
    """One case: what `release` made of it, what that was compared with, and the answer."""

    id: str
    spec: AskedProgram
    outcome: Outcome
    failed: bool
    text: str
    case: StoredCase | None
    release: str
    now: Compiled | None
    baseline: StoredProgram | None
    differences: tuple[Difference, ...]
    failure: Failure | None
    expected: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """What both kinds of documents begin with; `busbw` is the version that wrote it."""

    document: str
    version: int = wire.VERSION
    busbw: str
    began: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredResults(Results):
    """What `--results` writes of a session that measured: seconds, bytes, 10^9 bytes per second.

    `process_hosts` has the name of the host of each process of a group; `spent_s` is what
    `measuring_s` went to. `session` is null where its test did not run.
    """

    document: str = RESULTS
    environment: Environment
    process_hosts: tuple[str, ...]
    plan: Plan
    measuring_s: float
    spent_s: Mapping[str, float]
    session: MeasuredAnswer | None
    cases: tuple[CaseResult, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledResults(Results):
    """What `--results` writes of a session that compiled for topologies, on `host`."""

    document: str = COMPILED_RESULTS
    host: str
    session: CompiledAnswer | None
    compilers: tuple[Compiler, ...]
    cases: tuple[ProgramResult, ...]


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
    found: dict[str, object] = wire.to_json(
        MeasuredResults(
            busbw=busbw.__version__,
            began=began.isoformat(timespec="seconds"),
            environment=environment,
            process_hosts=tuple(process_hosts),
            plan=plan,
            measuring_s=measuring_s,
            spent_s=spent_s,
            session=converted(MeasuredAnswer, session) if session else None,
            cases=tuple(
                _case(
                    one,
                    measurements.get(one.spec),
                    references.get(one.spec),
                    tuple(quantiles_s.get(one.spec, ())),
                )
                for one in verdicts
            ),
        )
    )
    return found


def _case(
    verdict: Verdict,
    measured: Measurement | None,
    reference: Measurement | None,
    quantiles_s: tuple[Mapping[str, float], ...],
) -> CaseResult:
    case, ceiling = verdict.case, verdict.ceiling
    payload = payload_text(verdict.spec.payload_bytes)
    return converted(
        CaseResult,
        verdict,
        id=verdict.spec.id,
        case=converted(NamedCase, StoredCase.of(case), payload=payload) if case else None,
        measured=verdict.now,
        ceiling=converted(ReachedCeiling, ceiling, share=verdict.ceiling_share)
        if ceiling
        else None,
        published=verdict.reference,
        launches=measured.runs if measured else (),
        failures=measured.failures if measured else (),
        reference_launches=reference.runs if reference else (),
        quantiles_s=quantiles_s,
    )


def compiled_document(
    verdicts: Sequence[CompiledVerdict],
    session: SessionVerdict | None,
    compilers: Sequence[Compiler],
    *,
    began: datetime,
    host: str,
) -> dict[str, object]:
    """The session that `began` then on `host`, as plain data; docs/compiled.schema.json."""
    found: dict[str, object] = wire.to_json(
        CompiledResults(
            busbw=busbw.__version__,
            began=began.isoformat(timespec="seconds"),
            host=host,
            session=converted(CompiledAnswer, session) if session else None,
            compilers=tuple(compilers),
            cases=tuple(_program(one) for one in verdicts),
        )
    )
    return found


def _program(verdict: CompiledVerdict) -> ProgramResult:
    case, baseline, asked = verdict.case, verdict.baseline, verdict.spec
    return converted(
        ProgramResult,
        verdict,
        id=asked.id,
        spec=converted(AskedProgram, asked, spec=StoredSpec.of(asked.spec)),
        case=StoredCase.of(case) if case else None,
        baseline=converted(StoredProgram, baseline, case=StoredCase.of(baseline.case))
        if baseline
        else None,
    )


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
