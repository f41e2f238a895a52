"""Results that a session wrote, read back: each field is checked, and a problem says its place.

A value of ours is read by `wire`, without what a document says besides of it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from busbw import wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, CompileSpec, Spec, Workload
from busbw.model.launch import Failure, Measurement, Plan, Run
from busbw.model.machine import Compiler, Environment, file_name_of
from busbw.model.stored import StoredCase, StoredSpec, check_case
from busbw.model.verdict import CompiledVerdict, Reference, SessionVerdict, Summary, Verdict
from busbw.model.words import payload_text
from busbw.report.results import COMPILED_RESULTS, RESULTS
from busbw.workloads import WORKLOADS
from busbw.workloads.collective import Collective

# More than any memory moves in a second, and no more than any session takes in seconds.
_MOST = 1e18

T = TypeVar("T")


class DocumentError(ValueError):
    """What is wrong with a document, where, and what is accepted."""


def get(document: Mapping[str, Any], key: str) -> Any:
    """What a document has at a key. Raises DocumentError."""
    if key not in document:
        raise DocumentError(f"{key}: missing")
    return document[key]


def object_at(found: object, at: str) -> Mapping[str, Any]:
    """An object. Raises DocumentError."""
    if not isinstance(found, dict):
        raise DocumentError(f"{at}: expected an object, got {found!r:.60}")
    return found


def list_at(document: Mapping[str, Any], key: str) -> list[Any]:
    """The list that a document has at a key. Raises DocumentError."""
    found = get(document, key)
    if not isinstance(found, list):
        raise DocumentError(f"{key}: expected a list, got {found!r:.60}")
    return found


def read(kind: type[T], found: object, at: str) -> T:
    """A value of `kind`, without what the document says besides. Raises WireError."""
    return wire.from_json(kind, _known(kind, found), at)


def _known(kind: Any, found: Any) -> Any:
    """What `kind` has of a document."""
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _known(next(one for one in arguments if one is not type(None)), found)
    if origin is tuple and isinstance(found, list):
        return [_known(arguments[0], item) for item in found]
    if not dataclasses.is_dataclass(kind) or not isinstance(found, dict):
        return found
    if hasattr(kind, "of_kind"):
        return found
    hints = typing.get_type_hints(kind)
    return {key: _known(hints[key], item) for key, item in found.items() if key in hints}


def moment_at(found: object) -> datetime:
    """When a session began, UTC. Raises DocumentError."""
    try:
        moment = datetime.fromisoformat(read(str, found, "began"))
        if moment.tzinfo is None:
            raise ValueError("without a time zone")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise DocumentError(
            f"began: expected a moment such as 2026-01-31T03:00:00+00:00, got {found!r:.60}"
        ) from error


def check_number(found: float | None, at: str) -> None:
    """Raise DocumentError for a number that no time and no rate is."""
    if found is not None and not 1 / _MOST <= found <= _MOST:
        raise DocumentError(f"{at}: expected a number above 0, got {found!r:.60}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session that measured; `name` is the file's.

    `references` is what was measured in turn with the cases, and `process_hosts` the name of each
    process's host.
    """

    name: str
    busbw: str
    began: datetime
    environment: Environment
    plan: Plan
    answer: SessionVerdict | None
    verdicts: tuple[Verdict, ...]
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    process_hosts: tuple[str, ...] = ()
    measuring_s: float = 0.0

    @property
    def host(self) -> str:
        """The host that measured; "" where that is not known."""
        return self.environment.host

    @property
    def folders(self) -> tuple[str, ...]:
        """Where its machine's files lie below those of baselines and of a history.

        Cases of other numbers of ranks, or in another mesh, have a folder of their own.
        """
        key = self.environment.key
        cases = (one.case for one in self.verdicts if one.case is not None)
        shapes = dict.fromkeys((one.ranks, one.mesh) for one in cases)
        keys = [key, *(replace(key, ranks=ranks, mesh=mesh) for ranks, mesh in shapes)]
        return tuple(dict.fromkeys(str(one.folder) for one in keys))

    @property
    def is_paired(self) -> bool:
        """Whether two stacks were measured in turn."""
        return bool(self.references)

    def version(self, framework: str) -> str:
        """The framework with its version, such as ``jax 0.10.2``."""
        found = self.environment.versions.get(framework, {}).get(framework, "")
        return f"{framework} {found}" if found else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledSession:
    """A session that compiled and measured nothing; `name` is the file's."""

    name: str
    busbw: str
    began: datetime
    host: str
    answer: SessionVerdict | None
    compilers: tuple[Compiler, ...]
    verdicts: tuple[CompiledVerdict, ...]


def spec_of(name: str, case: Case | None, at: str) -> Spec:
    """What was asked for, of which a document has the id."""
    try:
        words, strategy, dtype, payload = name.rsplit("-", 3)
        payload_bytes = _payload_bytes(payload)
    except ValueError as error:
        raise DocumentError(
            f"{at}.id: expected an id such as jax-default-float32-4K, got {name!r:.60}"
        ) from error
    framework, *others = words.split("-")
    asked = Spec(
        framework=framework,
        payload_bytes=payload_bytes,
        workload=_workload(others),
        strategy=strategy,
        dtype=dtype,
    )
    if case is None:
        return asked
    return replace(
        asked,
        framework=case.framework,
        payload_bytes=case.payload_bytes,
        workload=case.workload,
        mesh=case.mesh if file_name_of(case.mesh) in others else "",
        clock=case.clock.value if case.clock.value in others else "default",
    )


def _workload(words: Sequence[str]) -> Workload:
    """The workload that the words of an id name, as far as they do: usual ones are left out."""
    kind = next((one for one in WORKLOADS if f"{one}_step" in words), Collective.kind)
    collective = next((one for one in COLLECTIVES if one in words), "all_reduce")
    return Workload.of_kind(kind)(collective=collective)


def _payload_bytes(text: str) -> int:
    """The inverse of `payload_text`. Raises ValueError."""
    units = {"K": 2**10, "M": 2**20}
    found = int(text.rstrip("KM")) * units.get(text[-1:], 1)
    if payload_text(found) != text:
        raise ValueError(f"no payload: {text!r:.60}")
    return found


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
