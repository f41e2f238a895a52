"""A session as one JSON document, measured or compiled: what is declared here is what is written.

`busbw.report.reading` reads it back; the schema in docs/ is generated from these classes.
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
    Difference,
    Program,
    Reference,
    SessionVerdict,
    Straggler,
    Summary,
    Verdict,
)
from busbw.model.words import Outcome, SessionOutcome, payload_text

from .figures import figures_of

# What a document says that it is.
RESULTS = "busbw results"

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
class StoredProgram:
    """What a program was compared with; `compiled` is null where it was out of memory."""

    case: StoredCase
    compiled: Compiled | None
    date: str
    release: str
    needed_bytes: int | None
    available_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramResult:
    """What the compiler `release` made of a case `now`, what of it is new, and what is stored."""

    release: str
    now: Compiled | None
    baseline: StoredProgram | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """One case: what was asked for and observed, what it was compared with, and the answer.

    `ratio` is today's time over the baseline's, or the candidate's over the reference's, with 95 %
    confidence within `ratio_interval` or from the best to the worst launch, and with the standard
    error `ratio_error` of its logarithm. `modes` are the seconds of launches in each of two modes;
    `tail_ratio` is by how much p90 over p25 grew. `published` is shown and never judged. `failures`
    are launches that gave no time, and `reference_launches` those of the other side of a pair.
    `program` is null where nothing was compiled. `figures` are the numbers of the tables.
    """

    id: str
    spec: StoredSpec
    case: NamedCase | None
    outcome: Outcome
    failed: bool
    expected: bool
    text: str
    figures: Mapping[str, float]
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
    program: ProgramResult | None
    launches: tuple[Run, ...]
    failures: tuple[Failure, ...]
    reference_launches: tuple[Run, ...]
    quantiles_s: tuple[Mapping[str, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionAnswer:
    """The answer for the session: `outcomes` are all that hold, and the first is its word.

    Where a locked reference was measured in turn, `stack` and `machine` say which of the two is
    slower.
    """

    outcome: SessionOutcome
    outcomes: tuple[SessionOutcome, ...]
    text: str
    stack: Answer | None
    machine: Answer | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """What `--results` writes: seconds, bytes, 10^9 bytes per second.

    `busbw` is the version that wrote it. `process_hosts` has the name of the host of each process
    of a group; `spent_s` is what `measuring_s` went to. `session` is null where its test did not
    run; `environment`, `plan` and `measuring_s` are, where nothing was measured but compiled, which
    `compilers` did.
    """

    document: str = RESULTS
    version: int = wire.VERSION
    busbw: str
    began: str
    host: str
    environment: Environment | None
    process_hosts: tuple[str, ...]
    plan: Plan | None
    measuring_s: float | None
    spent_s: Mapping[str, float]
    compilers: tuple[Compiler, ...]
    session: SessionAnswer | None
    cases: tuple[CaseResult, ...]


def results(
    *,
    began: datetime,
    host: str,
    session: SessionVerdict | None,
    verdicts: Sequence[Verdict],
    environment: Environment | None = None,
    plan: Plan | None = None,
    measurements: Mapping[Spec, Measurement] = MappingProxyType({}),
    references: Mapping[Spec, Measurement] = MappingProxyType({}),
    quantiles_s: Mapping[Spec, Sequence[Mapping[str, float]]] = MappingProxyType({}),
    measuring_s: float | None = None,
    spent_s: Mapping[str, float] = MappingProxyType({}),
    process_hosts: Sequence[str] = (),
    compilers: Sequence[Compiler] = (),
) -> dict[str, object]:
    """The document of a session that `began` then: dicts, lists, strings, numbers and None.

    `quantiles_s` are those of each launch's samples, as `stats.quantiles_s` gives them;
    `references` is what was measured in turn with the cases, if anything was.
    """
    found: dict[str, object] = wire.to_json(
        Results(
            busbw=busbw.__version__,
            began=began.isoformat(timespec="seconds"),
            host=host,
            environment=environment,
            process_hosts=tuple(process_hosts),
            plan=plan,
            measuring_s=measuring_s,
            spent_s=spent_s,
            compilers=tuple(compilers),
            session=converted(SessionAnswer, session) if session else None,
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
        spec=StoredSpec.of(verdict.spec),
        case=converted(NamedCase, StoredCase.of(case), payload=payload) if case else None,
        figures=_figures(verdict),
        measured=verdict.now,
        ceiling=converted(ReachedCeiling, ceiling, share=verdict.ceiling_share)
        if ceiling
        else None,
        published=verdict.reference,
        program=_program(verdict.program) if verdict.program else None,
        launches=measured.runs if measured else (),
        failures=measured.failures if measured else (),
        reference_launches=reference.runs if reference else (),
        quantiles_s=quantiles_s,
    )


def _figures(verdict: Verdict) -> dict[str, float]:
    found = {one.id: one.of(verdict) for one in figures_of(verdict) if one.kept}
    return {name: value for name, value in found.items() if value is not None}


def _program(program: Program) -> ProgramResult:
    before = program.baseline
    stored = converted(StoredProgram, before, case=StoredCase.of(before.case)) if before else None
    return converted(ProgramResult, program, baseline=stored)


def without_homes(document: object, home: str) -> object:
    """`document` with ``~`` for every home directory, in paths, messages and the ends of logs."""
    if isinstance(document, dict):
        return {key: without_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [without_homes(value, home) for value in document]
    return variables.without_homes(document, home) if isinstance(document, str) else document


def is_results(text: str) -> bool:
    """Whether `text` is the document of a session, of this format."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    if not isinstance(document, dict) or document.get("version") != wire.VERSION:
        return False
    return document.get("document") == RESULTS
