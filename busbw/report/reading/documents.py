"""A document as the session that it is of; errors name the file and the place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from busbw import wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, CompileSpec, Spec
from busbw.model.launch import Failure, Measurement, Plan, Run
from busbw.model.machine import Compiler, Environment
from busbw.model.stored import StoredCase, StoredSpec, check_case
from busbw.model.verdict import CompiledVerdict, Reference, SessionVerdict, Summary, Verdict

from ..results import COMPILED_RESULTS, RESULTS
from .fields import DocumentError, check_number, get, list_at, moment_at, object_at, read
from .ids import spec_of
from .values import CompiledSession, Session

_REMEDY = "record it again with --results"


def check_results(document: object) -> None:
    """Raises WireError unless `document` says that it is the results of a measured session."""
    wire.check_document(document, RESULTS, _REMEDY)


def read_results(content: str | bytes, name: str) -> Session | CompiledSession:
    """The session in a document; `name` is the file's, for messages. Raises DocumentError."""
    try:
        return session_of(wire.parsed(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of(document: object, name: str) -> Session | CompiledSession:
    """The session in a document that is parsed already. Raises DocumentError."""
    try:
        found = object_at(document, "document")
        is_compiled = "compilers" in found
        wire.check_document(found, COMPILED_RESULTS if is_compiled else RESULTS, _REMEDY)
        return (_compiled if is_compiled else _measured)(found, name)
    except (wire.WireError, DocumentError) as error:
        raise DocumentError(f"{name}: {error}") from error


def _measured(document: Mapping[str, Any], name: str) -> Session:
    rows = [object_at(one, f"cases[{n}]") for n, one in enumerate(list_at(document, "cases"))]
    verdicts = [_verdict(row, f"cases[{n}]") for n, row in enumerate(rows)]
    pairs = list(zip(verdicts, rows))
    environment = read(Environment, get(document, "environment"), "environment")
    if environment.key.ranks < 2:
        raise DocumentError(
            f"environment.key.ranks: expected 2 or more, got {environment.key.ranks}"
        )
    return Session(
        name=name,
        busbw=read(str, get(document, "busbw"), "busbw"),
        began=moment_at(get(document, "began")),
        environment=environment,
        plan=read(Plan, get(document, "plan"), "plan"),
        answer=_answer(document),
        verdicts=tuple(verdicts),
        measurements=dict(_measurements(pairs, "launches", "failures")),
        references=dict(_measurements(pairs, "reference_launches", "")),
        process_hosts=read(tuple[str, ...], get(document, "process_hosts"), "process_hosts"),
        measuring_s=read(float, get(document, "measuring_s"), "measuring_s"),
    )


def _compiled(document: Mapping[str, Any], name: str) -> CompiledSession:
    rows = list_at(document, "cases")
    verdicts = tuple(
        _compiled_verdict(object_at(row, f"cases[{n}]"), f"cases[{n}]")
        for n, row in enumerate(rows)
    )
    return CompiledSession(
        name=name,
        busbw=read(str, get(document, "busbw"), "busbw"),
        began=moment_at(get(document, "began")),
        host=read(str, get(document, "host"), "host"),
        answer=_answer(document),
        compilers=read(tuple[Compiler, ...], list_at(document, "compilers"), "compilers"),
        verdicts=verdicts,
    )


def _answer(document: Mapping[str, Any]) -> SessionVerdict | None:
    found = get(document, "session")
    return None if found is None else read(SessionVerdict, found, "session")


def _verdict(row: Mapping[str, Any], at: str) -> Verdict:
    case = _case(row.get("case"), f"{at}.case")
    spec = spec_of(read(str, row.get("id", ""), f"{at}.id"), case, at)
    given = {
        **row,
        "case": wire.to_json(case),
        "spec": wire.to_json(spec),
        "now": _again(Summary, row.get("measured"), f"{at}.measured"),
        "reference": _again(Reference, row.get("published"), f"{at}.published"),
    }
    verdict = read(Verdict, given, at)
    # The time of a step gives no rate.
    rates = _RATES if case is not None and case.workload.is_bare else ()
    _check_summary(verdict.now, rates, f"{at}.measured")
    _check_summary(verdict.baseline, rates, f"{at}.baseline")
    for name in ("ratio", "limit"):
        check_number(getattr(verdict, name), f"{at}.{name}")
    if verdict.ceiling is not None:
        check_number(verdict.ceiling.bytes_per_s, f"{at}.ceiling.bytes_per_s")
    if verdict.reference is not None:
        check_number(verdict.reference.algbw_gb_per_s, f"{at}.published.algbw_gb_per_s")
    return verdict


def _again(kind: type[object], found: object, at: str) -> object:
    """As it is in the document, checked under its name there."""
    return None if found is None else wire.to_json(read(kind, found, at))


_RATES = ("algbw_gb_per_s", "busbw_gb_per_s")


def _check_summary(found: Summary | None, rates: Sequence[str], at: str) -> None:
    if found is None:
        return
    for name in ("median_s", "best_s", "worst_s", *rates):
        check_number(getattr(found, name), f"{at}.{name}")
    for number, time_s in enumerate(found.times_s):
        check_number(time_s, f"{at}.times_s[{number}]")


def _case(found: object, at: str) -> Case | None:
    """A valid case; None for one that could not be resolved."""
    if found is None:
        return None
    stored = object_at(found, at)
    try:
        case = read(StoredCase, stored, at).case
        check_case(case)
        if case.collective not in COLLECTIVES:
            raise ValueError(f"collective: expected one of {', '.join(COLLECTIVES)}")
        if case.workload.is_bare and case.group_size < 2:
            raise ValueError("one rank is no collective")
    except (DocumentError, wire.WireError):
        raise
    except ValueError as error:
        raise DocumentError(f"{at}: {error}") from error
    return case


def _measurements(
    pairs: Sequence[tuple[Verdict, Mapping[str, Any]]], runs: str, failures: str
) -> Iterator[tuple[Spec, Measurement]]:
    """What each launch of each case gave; nothing for a case without launches."""
    for number, (verdict, row) in enumerate(pairs):
        gave = row.get(runs) or []
        lost = (row.get(failures) or []) if failures else []
        if verdict.case is None or not (gave or lost):
            continue
        at = f"cases[{number}]"
        found = Measurement(
            case=verdict.case,
            runs=read(tuple[Run, ...], gave, f"{at}.{runs}"),
            failures=read(tuple[Failure, ...], lost, f"{at}.{failures}"),
        )
        for index, run in enumerate(found.runs):
            # A process whose values take no time to lay out and compare has no work of its own.
            own_s = (one for one in run.process_own_s if one != 0)
            for time_s in (*run.samples_s, *own_s, *run.rank_times_s):
                check_number(time_s, f"{at}.{runs}[{index}]")
        yield verdict.spec, found


def _compiled_verdict(row: Mapping[str, Any], at: str) -> CompiledVerdict:
    spec = object_at(row.get("spec"), f"{at}.spec")
    asked = read(StoredSpec, object_at(spec.get("spec"), f"{at}.spec.spec"), f"{at}.spec.spec")
    baseline = row.get("baseline")
    if baseline is not None:
        stored = _case(object_at(baseline, f"{at}.baseline").get("case"), f"{at}.baseline.case")
        baseline = {**baseline, "case": wire.to_json(stored)}
    try:
        wanted = wire.to_json(
            CompileSpec(
                topology=read(str, spec.get("topology"), f"{at}.spec.topology"),
                spec=asked.spec,
                compiler=read(str, spec.get("compiler", ""), f"{at}.spec.compiler"),
            )
        )
    except ValueError as error:
        raise DocumentError(f"{at}.spec: {error}") from error
    case = wire.to_json(_case(row.get("case"), f"{at}.case"))
    return read(CompiledVerdict, {**row, "spec": wanted, "case": case, "baseline": baseline}, at)
