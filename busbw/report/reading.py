"""Read the files that --results wrote, and describe their sessions in words and tables.

Each field is checked. The message of an error names the location in the document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath

from busbw import extensions, wire
from busbw.collectives import COLLECTIVES
from busbw.model.case import Case, CaseSpec, convert_to
from busbw.model.field_types import parse_moment
from busbw.model.launch import Measurement, Plan, Run
from busbw.model.machine import Environment
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import plural

from .conclusion import (
    OUTCOMES_WITHOUT_REASON,
    FailureLog,
    failed_case_lines,
    failure_logs,
    legend_lines,
)
from .results import RESULTS_KIND, Results
from .session import environment_facts, session_tables, versions_text
from .table import Table

# A sentence, and the points of a list below the sentence.
Paragraph = tuple[str, Sequence[str]]


class DocumentError(ValueError):
    """The error of a document that does not contain valid results.

    The message names the location in the document, the error, and the expected value.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDescription:
    """The texts and tables of a session or of several sessions, for a summary or an HTML page.

    Attributes:
        title: The heading above everything else, such as ``All-reduce on TPU v5 lite, 4 ranks``.
        verdict: The verdict on the session; None if several sessions are described.
        facts: Where and with which software the session ran, such as ``{"device": "TPU v5 ..."}``.
        tables: The tables of results, which together have a row for each case.
        changes: Paragraphs on the cases that failed or changed.
        logs: The details of the failures.
        notes: Lines that explain the columns of the tables.

    """

    title: str
    verdict: SessionVerdict | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    changes: Sequence[Paragraph] = ()
    logs: Sequence[FailureLog] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class SessionRecord(ABC):
    """A session that was read from a file of results.

    An extension that writes another kind of results declares a function in its table RESULTS, under
    the name of the kind. The function returns a SessionRecord from a document.

    Attributes:
        name: The name of the file, for messages.
        busbw: The version of busbw that wrote the file.
        began: When the session began (UTC).
        session_verdict: The verdict on the session.
        verdicts: The verdicts on the cases.

    """

    name: str
    busbw: str
    began: datetime
    session_verdict: SessionVerdict
    verdicts: tuple[Verdict, ...]

    @abstractmethod
    def describe_session(self) -> SessionDescription:
        """Return the part of the description that depends on the kind of session.

        The part is the title, the facts, the tables, and the paragraphs on cases that changed.
        `describe` adds the other texts.
        """

    def describe(self, failing_since_texts: Sequence[str] = ()) -> SessionDescription:
        """Return the texts and tables of the session, for a summary or a page.

        To the result of `describe_session`, the verdict, the failed cases and their logs are added,
        and `failing_since_texts`: sentences that say since which session cases fail.
        """
        specifics = self.describe_session()
        failed = sum(verdict.failed for verdict in self.verdicts)
        changes = list(specifics.changes)
        if failed:
            heading = f"{failed} of {plural(len(self.verdicts), 'case')} failed:"
            changes.append((heading, failed_case_lines(self.verdicts)))
        if failing_since_texts:
            changes.append(("Since when:", failing_since_texts))
        others = Counter(
            verdict.outcome.value
            for verdict in self.verdicts
            if not verdict.failed and verdict.outcome not in OUTCOMES_WITHOUT_REASON
        )
        changes += [
            (f"{count} {outcome}: see the tables.", ()) for outcome, count in others.items()
        ]
        return replace(
            specifics,
            verdict=self.session_verdict,
            facts={name: text for name, text in specifics.facts.items() if text},
            changes=changes,
            logs=failure_logs(self.verdicts),
            notes=legend_lines(self.verdicts),
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredSessionRecord(SessionRecord):
    """A session that measured cases, which was read from a file of results.

    Attributes:
        environment: The machine, devices and versions.
        plan: The plan of the launches.
        measurements: The measurement of each case that has a launch.
        references: The measurement of each case by the interleaved reference stack; empty without
            such a stack.
        process_hosts: The host of each process, if a group of processes measured; otherwise empty.

    """

    environment: Environment
    plan: Plan
    measurements: Mapping[CaseSpec, Measurement] = field(default_factory=dict)
    references: Mapping[CaseSpec, Measurement] = field(default_factory=dict)
    process_hosts: tuple[str, ...] = ()

    def describe_session(self) -> SessionDescription:
        """Return the title, the facts and the tables of the session, and its injected losses.

        The title names the collective, the device and the ranks. The `changes` of the result are a
        paragraph for each injected loss.
        """
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
        return SessionDescription(
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
                self.verdicts, measurements, verbose=True, changed_options=environment.changed
            ),
            changes=[
                (f"injected: {text}; the times are not real.", ())
                for text in sorted(filter(None, injected))
            ],
        )

    @property
    def machine_folders(self) -> tuple[str, ...]:
        """The folders of the machines of all cases, such as ``tpu-v5-lite/4r``.

        Baselines and histories are stored in folders of these names. Each number of ranks and each
        mesh has a folder of its own.
        """
        key = self.environment.key
        cases = (verdict.case for verdict in self.verdicts if verdict.case is not None)
        shapes = dict.fromkeys((case.ranks, case.mesh) for case in cases)
        keys = [key, *(replace(key, ranks=ranks, mesh=mesh) for ranks, mesh in shapes)]
        return tuple(dict.fromkeys(str(key.folder) for key in keys))

    def version(self, framework: str) -> str:
        """Return a framework with its version, such as ``jax 0.10.2``; "" if unknown."""
        version = self.environment.versions.get(framework, {}).get(framework, "")
        return f"{framework} {version}" if version else ""


def read_results(content: str | bytes, name: str) -> SessionRecord:
    """Return the session in the `content` of the results file `name`.

    Raises DocumentError if the content is not valid. `name` is for the message of this error.
    """
    try:
        return session_of_document(wire.parse_json(content), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {error}") from error


def session_of_document(document: object, name: str) -> SessionRecord:
    """Return the session in a parsed JSON document, which is from the file `name`.

    Raises DocumentError if the document does not contain valid results.
    """
    kind = document.get("document") if isinstance(document, dict) else None
    readers = extensions.load_functions(kind, "RESULTS") if isinstance(kind, str) else []
    try:
        for read in readers:
            record: SessionRecord = read(document, name)
            return record
        wire.check_document(document, RESULTS_KIND, "record it again with --results")
        return session_of_results(wire.from_json(Results, document, "document"), name)
    except wire.WireError as error:
        raise DocumentError(f"{name}: {str(error).removeprefix('document.')}") from error


def session_of_results(results: Results, name: str) -> MeasuredSessionRecord:
    """Return the session in `results`, which are from the file `name`.

    Raises WireError for an impossible case. The caller has checked the types of all fields.
    """
    measurements, references = {}, {}
    for number, row in enumerate(results.cases):
        case, spec, location = row.case, row.spec, f"cases[{number}]"
        check_collective(case, f"{location}.case")
        runs = _with_converted_extra_values(row.launches, f"{location}.launches")
        reference = _with_converted_extra_values(
            row.reference_launches, f"{location}.reference_launches"
        )
        if case is not None and (runs or row.failures):
            measurements[spec] = Measurement(case=case, runs=runs, failures=row.failures)
        if case is not None and reference:
            references[spec] = Measurement(case=case, runs=reference)
    return convert_to(
        MeasuredSessionRecord,
        results,
        name=name,
        began=parse_moment(results.began),
        session_verdict=results.session,
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


def _with_converted_extra_values(runs: Sequence[Run], location: str) -> tuple[Run, ...]:
    """Return launches with extra values that are converted from JSON to the types of extensions.

    Raises WireError if a value does not fit its type. `location` is the path of the launches in the
    document, for the message.
    """
    return tuple(
        replace(run, extra=extensions.with_declared_types(run.extra, f"{location}[{number}].extra"))
        for number, run in enumerate(runs)
    )


def check_collective(case: Case | None, location: str) -> None:
    """Raise WireError if a case has an unknown collective, or a collective over a single rank.

    `location` is the path of the case in the document, for the message. If `case` is None, or the
    case of a program, nothing is checked.
    """
    # A user's program contains any collectives, and its case names none of them.
    if case is None or not case.is_single_collective:
        return
    if case.collective not in COLLECTIVES:
        raise wire.WireError(f"{location}: collective: expected one of {', '.join(COLLECTIVES)}")
    if case.group_size < 2:
        raise wire.WireError(f"{location}: one rank is no collective")
