"""Results that a session wrote, read back: each field is checked, and a problem says its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from busbw import wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, CompileSpec, Spec, Workload
from busbw.model.launch import Measurement, Plan
from busbw.model.machine import Compiler, Environment, file_name_of
from busbw.model.stored import CompiledBaseline, StoredCase, check_case, converted
from busbw.model.verdict import Ceiling, CompiledVerdict, SessionVerdict, Verdict
from busbw.model.words import payload_text
from busbw.workloads import WORKLOADS
from busbw.workloads.collective import Collective

from .results import (
    ABOVE_0,
    COMPILED_RESULTS,
    RESULTS,
    SIGNED,
    CaseResult,
    CompiledResults,
    MeasuredResults,
    ProgramResult,
)

# More than any memory moves in a second, and no more than any session takes in seconds.
_MOST = 1e18


class DocumentError(ValueError):
    """What is wrong with a document, where, and what is accepted."""


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


def read_results(content: str | bytes, name: str) -> Session | CompiledSession:
    """The session in a document; `name` is the file's, for messages. Raises DocumentError."""
    try:
        return session_of(wire.parsed(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of(document: object, name: str) -> Session | CompiledSession:
    """The session in a document that is parsed already. Raises DocumentError."""
    is_compiled = isinstance(document, dict) and "compilers" in document
    kind = COMPILED_RESULTS if is_compiled else RESULTS
    try:
        wire.check_document(document, kind, "record it again with --results")
        if is_compiled:
            return _compiled(wire.from_json(CompiledResults, document, "document"), name)
        return _measured(wire.from_json(MeasuredResults, document, "document"), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {str(error).removeprefix('document.')}") from error


def _measured(found: MeasuredResults, name: str) -> Session:
    if found.environment.key.ranks < 2:
        raise wire.WireError(
            f"environment.key.ranks: expected 2 or more, got {found.environment.key.ranks}"
        )
    verdicts = tuple(_verdict(row, f"cases[{n}]") for n, row in enumerate(found.cases))
    measurements, references = {}, {}
    for verdict, row in zip(verdicts, found.cases):
        case, spec = verdict.case, verdict.spec
        if case is not None and (row.launches or row.failures):
            measurements[spec] = Measurement(case=case, runs=row.launches, failures=row.failures)
        if case is not None and row.reference_launches:
            references[spec] = Measurement(case=case, runs=row.reference_launches)
    return converted(
        Session,
        found,
        name=name,
        began=_moment(found.began),
        answer=converted(SessionVerdict, found.session) if found.session else None,
        verdicts=verdicts,
        measurements=measurements,
        references=references,
    )


def _compiled(found: CompiledResults, name: str) -> CompiledSession:
    answer = found.session
    return converted(
        CompiledSession,
        found,
        name=name,
        began=_moment(found.began),
        answer=SessionVerdict(outcomes=answer.outcomes, text=answer.text) if answer else None,
        verdicts=tuple(_program(row, f"cases[{n}]") for n, row in enumerate(found.cases)),
    )


def _moment(text: str) -> datetime:
    """When a session began, UTC. Raises WireError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("without a time zone")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise wire.WireError(
            f"began: expected a moment such as 2026-01-31T03:00:00+00:00, got {text!r:.60}"
        ) from error


def _verdict(row: CaseResult, at: str) -> Verdict:
    case = _case(row.case, f"{at}.case") if row.case else None
    # The time of a step gives no rate.
    is_bare = case is not None and case.workload.is_bare
    _check_numbers(row, at, ABOVE_0 | {"busbw_gb_per_s"} if is_bare else ABOVE_0)
    return converted(
        Verdict,
        row,
        spec=_spec(row.id, case, at),
        case=case,
        now=row.measured,
        ceiling=converted(Ceiling, row.ceiling) if row.ceiling else None,
        reference=row.published,
    )


def _check_numbers(value: object, at: str, above_0: AbstractSet[str], name: str = "") -> None:
    """Raise WireError for a number in `value` that no time, rate or count is."""
    if dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            _check_numbers(getattr(value, one.name), f"{at}.{one.name}", above_0, one.name)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            _check_numbers(item, f"{at}[{index}]", above_0, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_numbers(item, f"{at}.{key}", above_0, name)
    elif isinstance(value, (int, float)) and name not in SIGNED:
        least, words = (1 / _MOST, "above 0") if name in above_0 else (0, "of 0 or more")
        if not least <= value <= _MOST:
            raise wire.WireError(f"{at}: expected a number {words}, got {value!r:.60}")


def _case(stored: StoredCase, at: str) -> Case:
    """A valid case. Raises WireError."""
    try:
        case = stored.case
        check_case(case)
        if case.collective not in COLLECTIVES:
            raise ValueError(f"collective: expected one of {', '.join(COLLECTIVES)}")
        if case.workload.is_bare and case.group_size < 2:
            raise ValueError("one rank is no collective")
    except ValueError as error:
        raise wire.WireError(f"{at}: {error}") from error
    return case


def _spec(name: str, case: Case | None, at: str) -> Spec:
    """What was asked for, of which a document has the id."""
    try:
        words, strategy, dtype, payload = name.rsplit("-", 3)
        payload_bytes = _payload_bytes(payload)
    except ValueError as error:
        raise wire.WireError(
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


def _program(row: ProgramResult, at: str) -> CompiledVerdict:
    case, baseline = row.case, row.baseline
    stored = _case(baseline.case, f"{at}.baseline.case") if baseline else None
    try:
        asked = converted(CompileSpec, row.spec, spec=row.spec.spec.spec)
    except ValueError as error:
        raise wire.WireError(f"{at}.spec: {error}") from error
    return converted(
        CompiledVerdict,
        row,
        spec=asked,
        case=_case(case, f"{at}.case") if case else None,
        baseline=converted(CompiledBaseline, baseline, case=stored) if baseline else None,
    )
