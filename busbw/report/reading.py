"""Results that a session wrote, read back: each field is checked; an error names the place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from busbw import wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, Spec, converted
from busbw.model.launch import Measurement, Plan
from busbw.model.machine import Compiler, Environment
from busbw.model.verdict import SessionVerdict, Verdict

from .results import RESULTS, CaseResult, Results


class DocumentError(ValueError):
    """A document that is no valid results; the message says where, what is wrong and expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session that measured, with the `name` of its file.

    `references` are the measurements of the interleaved reference, and `process_hosts` has the name
    of each process's host. `command` repeats the session.
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
    command: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the machine below those of baselines and of a history.

        Cases of another number of ranks, or in another mesh, have another folder.
        """
        key = self.environment.key
        cases = (verdict.case for verdict in self.verdicts if verdict.case is not None)
        shapes = dict.fromkeys((case.ranks, case.mesh) for case in cases)
        keys = [key, *(replace(key, ranks=ranks, mesh=mesh) for ranks, mesh in shapes)]
        return tuple(dict.fromkeys(str(key.folder) for key in keys))

    def version(self, framework: str) -> str:
        """Return the framework with its version, such as ``jax 0.10.2``; empty for unknown."""
        version = self.environment.versions.get(framework, {}).get(framework, "")
        return f"{framework} {version}" if version else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledSession:
    """A session that compiled and measured nothing, with the `name` of its file."""

    name: str
    busbw: str
    began: datetime
    host: str
    answer: SessionVerdict | None
    compilers: tuple[Compiler, ...]
    verdicts: tuple[Verdict, ...]
    command: str = ""


def read_results(content: str | bytes, name: str) -> Session | CompiledSession:
    """Return the session in a document. Raises DocumentError, whose message begins with `name`."""
    try:
        return session_of(wire.parsed(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of(document: object, name: str) -> Session | CompiledSession:
    """Return the session in a document that is parsed already. Raises DocumentError."""
    try:
        wire.check_document(document, RESULTS, "record it again with --results")
        return _session(wire.from_json(Results, document, "document"), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {str(error).removeprefix('document.')}") from error


def _session(results: Results, name: str) -> Session | CompiledSession:
    for number, row in enumerate(results.cases):
        _check_row(row, f"cases[{number}]", is_compiled=results.environment is None)
    fields: dict[str, Any] = {
        "name": name,
        "began": _moment(results.began),
        "answer": results.session,
        "verdicts": tuple(converted(Verdict, row) for row in results.cases),
    }
    if results.environment is None:
        return converted(CompiledSession, results, **fields)
    ranks = results.environment.key.ranks
    if ranks < 2:
        raise wire.WireError(f"environment.key.ranks: expected 2 or more, got {ranks}")
    for key in ("plan", "measuring_s"):
        if getattr(results, key) is None:
            raise wire.WireError(f"{key}: expected a value, since there is an environment")
    measurements, references = {}, {}
    for row in results.cases:
        case, spec = row.case, row.spec
        if case is not None and (row.launches or row.failures):
            measurements[spec] = Measurement(case=case, runs=row.launches, failures=row.failures)
        if case is not None and row.reference_launches:
            references[spec] = Measurement(case=case, runs=row.reference_launches)
    return converted(Session, results, measurements=measurements, references=references, **fields)


def _moment(text: str) -> datetime:
    """Return when a session began, UTC. Raises WireError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("without a time zone")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise wire.WireError(
            f"began: expected a moment such as 2026-01-31T03:00:00+00:00, got {text!r:.60}"
        ) from error


def _check_row(row: CaseResult, place: str, *, is_compiled: bool) -> None:
    """Raise WireError for a row that is no verdict of such a session."""
    if row.id != row.spec.id:
        raise wire.WireError(f"{place}.id: expected {row.spec.id}, as its spec says, got {row.id}")
    if is_compiled and not row.spec.topology:
        raise wire.WireError(
            f"{place}.spec.topology: missing; without an environment it is compiled"
        )
    for key, value in (("spec.topology", row.spec.topology), ("program", row.program)):
        if value and not is_compiled:
            raise wire.WireError(
                f"{place}.{key}: expected none; with an environment it is measured"
            )
    if row.program is not None and row.program.baseline is not None:
        _check_case(row.program.baseline.case, f"{place}.program.baseline.case")
    if row.case is None:
        return
    _check_case(row.case, f"{place}.case")
    _check_same(row.case, row.spec, f"{place}.case")
    # The time of a step gives no rate.
    for name, summary in {"now": row.now, "baseline": row.baseline}.items():
        if row.case.workload.is_sized and summary is not None and summary.busbw_gb_per_s <= 0:
            text = f"expected a number above 0, got {summary.busbw_gb_per_s!r}"
            raise wire.WireError(f"{place}.{name}.busbw_gb_per_s: {text}")


def _check_same(case: Case, spec: Spec, place: str) -> None:
    """Raise WireError if `case` is not what `spec` requests."""
    for name in ("framework", "workload", "dtype", "payload_bytes"):
        actual, expected = getattr(case, name), getattr(spec, name)
        if actual != expected:
            words = "" if name == "workload" else f" expected {expected}, got {actual};"
            raise wire.WireError(f"{place}.{name}:{words} it is not what its spec asks for")


def _check_case(case: Case, place: str) -> None:
    # A user's program has no collective of its own.
    if case.workload.is_sized and case.collective not in COLLECTIVES:
        raise wire.WireError(f"{place}: collective: expected one of {', '.join(COLLECTIVES)}")
    if case.workload.is_sized and case.group_size < 2:
        raise wire.WireError(f"{place}: one rank is no collective")
