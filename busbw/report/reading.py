"""Results that a session wrote, read back: each field is checked, and a problem says its place."""

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
    """What is wrong with a document, where, and what is accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session that measured; `name` is the file's.

    `references` is what was measured in turn with the cases, and `process_hosts` the name of each
    process's host. `command` repeats the session.
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
        """Where its machine's files lie below those of baselines and of a history.

        Cases of other numbers of ranks, or in another mesh, have a folder of their own.
        """
        key = self.environment.key
        cases = (one.case for one in self.verdicts if one.case is not None)
        shapes = dict.fromkeys((one.ranks, one.mesh) for one in cases)
        keys = [key, *(replace(key, ranks=ranks, mesh=mesh) for ranks, mesh in shapes)]
        return tuple(dict.fromkeys(str(one.folder) for one in keys))

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
    verdicts: tuple[Verdict, ...]
    command: str = ""


def read_results(content: str | bytes, name: str) -> Session | CompiledSession:
    """The session in a document; `name` is the file's, for messages. Raises DocumentError."""
    try:
        return session_of(wire.parsed(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of(document: object, name: str) -> Session | CompiledSession:
    """The session in a document that is parsed already. Raises DocumentError."""
    try:
        wire.check_document(document, RESULTS, "record it again with --results")
        return session_from(wire.from_json(Results, document, "document"), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {str(error).removeprefix('document.')}") from error


def session_from(found: Results, name: str) -> Session | CompiledSession:
    for number, row in enumerate(found.cases):
        _check_row(row, f"cases[{number}]", is_compiled=found.environment is None)
    shared: dict[str, Any] = {
        "name": name,
        "began": _moment(found.began),
        "answer": found.session,
        "verdicts": tuple(converted(Verdict, row) for row in found.cases),
    }
    if found.environment is None:
        return converted(CompiledSession, found, **shared)
    if found.environment.key.ranks < 2:
        raise wire.WireError(
            f"environment.key.ranks: expected 2 or more, got {found.environment.key.ranks}"
        )
    for key in ("plan", "measuring_s"):
        if getattr(found, key) is None:
            raise wire.WireError(f"{key}: expected what was measured with an environment")
    measurements, references = {}, {}
    for row in found.cases:
        case, spec = row.case, row.spec
        if case is not None and (row.launches or row.failures):
            measurements[spec] = Measurement(case=case, runs=row.launches, failures=row.failures)
        if case is not None and row.reference_launches:
            references[spec] = Measurement(case=case, runs=row.reference_launches)
    return converted(Session, found, measurements=measurements, references=references, **shared)


def _moment(text: str) -> datetime:
    """When a session began, UTC. Raises WireError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("without a time zone")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise wire.WireError(
            f"began: expected a moment such as 2026-01-31T03:00:00+00:00, got {text!r:.60}"
        ) from error


def _check_row(row: CaseResult, at: str, *, is_compiled: bool) -> None:
    """Raise WireError for what no verdict is, or is no verdict of such a session."""
    if row.id != row.spec.id:
        raise wire.WireError(f"{at}.id: expected {row.spec.id}, as its spec says, got {row.id}")
    if is_compiled and not row.spec.topology:
        raise wire.WireError(f"{at}.spec.topology: missing; without an environment it is compiled")
    for what, has in (("spec.topology", row.spec.topology), ("program", row.program)):
        if has and not is_compiled:
            raise wire.WireError(f"{at}.{what}: expected none; with an environment it is measured")
    if row.program is not None and row.program.baseline is not None:
        _check_case(row.program.baseline.case, f"{at}.program.baseline.case")
    if row.case is None:
        return
    _check_case(row.case, f"{at}.case")
    _check_same(row.case, row.spec, f"{at}.case")
    # The time of a step gives no rate.
    for name, one in {"now": row.now, "baseline": row.baseline}.items():
        if row.case.workload.is_sized and one is not None and one.busbw_gb_per_s <= 0:
            wanted = f"expected a number above 0, got {one.busbw_gb_per_s!r}"
            raise wire.WireError(f"{at}.{name}.busbw_gb_per_s: {wanted}")


def _check_same(case: Case, spec: Spec, at: str) -> None:
    """Raise WireError where `case` is of something else than was asked for."""
    for name in ("framework", "workload", "dtype", "payload_bytes"):
        found, asked = getattr(case, name), getattr(spec, name)
        if found != asked:
            words = "" if name == "workload" else f" expected {asked}, got {found};"
            raise wire.WireError(f"{at}.{name}:{words} it is not what its spec asks for")


def _check_case(case: Case, at: str) -> None:
    # A program of the user's is not of one.
    if case.workload.is_sized and case.collective not in COLLECTIVES:
        raise wire.WireError(f"{at}: collective: expected one of {', '.join(COLLECTIVES)}")
    if case.workload.is_sized and case.group_size < 2:
        raise wire.WireError(f"{at}: one rank is no collective")
