"""Results that a session wrote, read back: each field is checked; an error names the place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath

from busbw import extensions, wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, Spec, convert_to
from busbw.model.field_types import parse_moment
from busbw.model.launch import Measurement, Plan, Run
from busbw.model.machine import Environment
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import SessionOutcome, plural

from .answer import Log, failed_lines, failure_logs
from .results import RESULTS, Results
from .session import environment_facts, session_tables, versions_text
from .table import Table
from .verdicts import QUIET, legend

# A sentence, and the points of the list below it.
Text = tuple[str, Sequence[str]]


class DocumentError(ValueError):
    """A document that is no valid results; the message says where, what is wrong and expected."""


# The verdict of a session that ended before its own test.
_UNKNOWN = SessionVerdict(
    outcomes=(SessionOutcome.NO_VERDICT,), text="the session's own test did not run"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outline:
    """A session in words: its verdict, where it ran, what changed, and its cases as tables.

    `facts` say where and with what it ran, by name; "" for what is not known.
    """

    title: str
    verdict: SessionVerdict | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    changes: Sequence[Text] = ()
    logs: Sequence[Log] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class SessionRecord(ABC):
    """A session that was read; `name` is the file's, and `command` repeats the session.

    An extension that writes results of its own has a function in a table RESULTS, by the name of
    its document, which makes a record of them.
    """

    name: str
    busbw: str
    began: datetime
    answer: SessionVerdict | None
    verdicts: tuple[Verdict, ...]
    command: str = ""

    @abstractmethod
    def description(self) -> Outline:
        """Describe what is special about a session of one kind: its title, facts and tables."""

    def describe(self, since: Sequence[str] = ()) -> Outline:
        """Describe the session; `since` says since when cases fail."""
        words, failed = self.description(), sum(verdict.failed for verdict in self.verdicts)
        changes = list(words.changes)
        if failed:
            heading = f"{failed} of {plural(len(self.verdicts), 'case')} failed:"
            changes.append((heading, failed_lines(self.verdicts)))
        if since:
            changes.append(("Since when:", since))
        others = Counter(
            verdict.outcome.value
            for verdict in self.verdicts
            if not verdict.failed and verdict.outcome not in QUIET
        )
        changes += [
            (f"{count} {outcome}: see the tables.", ()) for outcome, count in others.items()
        ]
        return replace(
            words,
            verdict=self.answer or _UNKNOWN,
            facts={name: text for name, text in words.facts.items() if text},
            changes=changes,
            logs=failure_logs(self.verdicts),
            notes=legend(self.verdicts),
        )


@dataclass(frozen=True, kw_only=True)
class Session(SessionRecord):
    """A session that measured.

    `references` is what was interleaved with the cases, and `process_hosts` the name of each
    process's host.
    """

    environment: Environment
    plan: Plan
    measurements: Mapping[Spec, Measurement] = field(default_factory=dict)
    references: Mapping[Spec, Measurement] = field(default_factory=dict)
    process_hosts: tuple[str, ...] = ()

    def description(self) -> Outline:
        """Describe the session; its title has the collective, the device and the ranks."""
        environment, key = self.environment, self.environment.key
        names = {verdict.case.collective for verdict in self.verdicts if verdict.case is not None}
        collective = names.pop() if len(names) == 1 else "collectives"
        title = f"{collective.replace('_', '-').capitalize()} on {key.device_kind}"
        measurements = self.measurements.values()
        injected = {run.injected for measured in measurements for run in measured.runs}
        references = {
            f"{measurement.case.framework}, reference": versions_text(run.versions)
            for measurement in self.references.values()
            for run in measurement.runs
        }
        return Outline(
            title=f"{title}, {plural(key.ranks, 'rank')}",
            facts={
                **environment_facts(environment),
                **references,
                "began": f"{self.began:%Y-%m-%d %H:%M} UTC",
                "hosts": ", ".join(dict.fromkeys(self.process_hosts or (environment.host,))),
                "flags": ", ".join(f"{name}={value}" for name, value in environment.flags.items()),
                "commit": environment.commit,
                "busbw": self.busbw,
                "file": PurePath(self.name).name,
            },
            tables=session_tables(
                self.verdicts, measurements, verbose=True, changed=environment.changed
            ),
            changes=[
                (f"injected: {text}; the times are not real.", ())
                for text in sorted(filter(None, injected))
            ],
        )

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


def read_results(content: str | bytes, name: str) -> SessionRecord:
    """Read the session in a document; `name` is the file's, for messages. Raises DocumentError."""
    try:
        return session_of(wire.parse_json(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of(document: object, name: str) -> SessionRecord:
    """Return the session in a document that is parsed already. Raises DocumentError."""
    kind = document.get("document") if isinstance(document, dict) else None
    readers = extensions.load_functions(kind, "RESULTS") if isinstance(kind, str) else []
    try:
        for read in readers:
            record: SessionRecord = read(document, name)
            return record
        wire.check_document(document, RESULTS, "record it again with --results")
        return session_from(wire.from_json(Results, document, "document"), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {str(error).removeprefix('document.')}") from error


def session_from(results: Results, name: str) -> Session:
    """Return the session of checked results. Raises WireError for what no session writes."""
    for key in ("environment", "plan", "measuring_s"):
        if getattr(results, key) is None:
            raise wire.WireError(f"{key}: expected a value, since the session measured")
    measurements, references = {}, {}
    for number, row in enumerate(results.cases):
        case, spec, place = row.case, row.spec, f"cases[{number}]"
        check_case(case, f"{place}.case")
        runs = _typed(row.launches, f"{place}.launches")
        reference = _typed(row.reference_launches, f"{place}.reference_launches")
        if case is not None and (runs or row.failures):
            measurements[spec] = Measurement(case=case, runs=runs, failures=row.failures)
        if case is not None and reference:
            references[spec] = Measurement(case=case, runs=reference)
    return convert_to(
        Session,
        results,
        name=name,
        began=parse_moment(results.began),
        answer=results.session,
        verdicts=tuple(
            convert_to(
                Verdict,
                row,
                extra=extensions.with_declared_types(row.extra, f"cases[{number}].extra"),
            )
            for number, row in enumerate(results.cases)
        ),
        measurements=measurements,
        references=references,
    )


def _typed(runs: Sequence[Run], place: str) -> tuple[Run, ...]:
    """Return the launches with the values of extensions in their types."""
    return tuple(
        replace(run, extra=extensions.with_declared_types(run.extra, f"{place}[{number}].extra"))
        for number, run in enumerate(runs)
    )


def check_case(case: Case | None, place: str) -> None:
    """Raise WireError for an unknown collective, and for a group of one rank."""
    # A user's program has no collective of its own.
    if case is None or not case.is_sized:
        return
    if case.collective not in COLLECTIVES:
        raise wire.WireError(f"{place}: collective: expected one of {', '.join(COLLECTIVES)}")
    if case.group_size < 2:
        raise wire.WireError(f"{place}: one rank is no collective")
