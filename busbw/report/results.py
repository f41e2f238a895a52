"""The JSON document that --results writes, and the description of its session for people.

The fields of the classes are the keys of the document. The schema in docs/ is generated from these
classes. If a document is not valid, the error message names the place of the wrong value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw import extensions, wire
from busbw.collectives import COLLECTIVES
from busbw.model import variables
from busbw.model.case import Case, CaseSpec, dataclass_from
from busbw.model.field_types import Moment, NotNegative, parse_moment
from busbw.model.launch import Failure, Measurement, MeasurementPlan, Run
from busbw.model.machine import Environment
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import plural

from .conclusion import (
    OUTCOMES_WITHOUT_REASON,
    Paragraph,
    failed_case_lines,
    failure_logs,
    legend_lines,
)
from .figures import CASE_LABELS, figure_values_for_documents
from .session import environment_facts, session_tables, versions_text
from .table import Table

# The value of the key `document`, which tells the kinds of documents apart.
RESULTS_KIND = "busbw results"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDescription:
    """The texts and tables of a session or of several sessions, for a summary or an HTML page.

    Attributes:
        title: The heading above everything else, such as ``All-reduce on TPU v5 lite, 4 ranks``.
        verdict: The verdict on the session; None if several sessions are described.
        facts: Where and with which software the session ran, such as ``{"device": "TPU v5 ..."}``.
        tables: The tables of results, which together have a row for each case.
        changes: Paragraphs on the cases that failed or changed.
        logs: Paragraphs with the details of failures, below the ids of the cases that failed.
        notes: Lines that explain the columns of the tables.

    """

    title: str
    verdict: SessionVerdict | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    changes: Sequence[Paragraph] = ()
    logs: Sequence[Paragraph] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDocument(ABC):
    """The JSON document of a session: the fields that the documents of all modes contain.

    Attributes:
        document: The kind of document.
        version: The version of the format of the document.
        busbw: The version of busbw that wrote the document.
        began: When the session began (UTC).
        host: The name of the host that ran the session.
        session: The verdict on the session.

    """

    document: str
    version: int = wire.DOCUMENT_VERSION
    busbw: str
    began: Moment
    host: str
    session: SessionVerdict

    @property
    @abstractmethod
    def verdicts(self) -> Sequence[Verdict]:
        """The verdicts on the cases, in the order of the tests."""

    @abstractmethod
    def describe_without_verdict(self) -> SessionDescription:
        """Return the title, the facts, the tables, and the paragraphs on cases that changed.

        These parts of the description depend on the mode of the session. `describe` adds the other
        parts, such as the verdict.
        """

    @property
    def began_text(self) -> str:
        """When the session began, such as ``2026-01-31 03:00 UTC``."""
        return f"{parse_moment(self.began):%Y-%m-%d %H:%M} UTC"

    def describe(self, failing_since_texts: Sequence[str] = ()) -> SessionDescription:
        """Return the texts and tables of the session, for a summary or a page.

        The result has everything that `describe_without_verdict` returns, the verdict, the failed
        cases with their logs, and `failing_since_texts`. These are sentences that say since which
        session cases fail.
        """
        specifics = self.describe_without_verdict()
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
            verdict=self.session,
            facts={name: text for name, text in specifics.facts.items() if text},
            changes=changes,
            logs=failure_logs(self.verdicts),
            notes=legend_lines(self.verdicts),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult(Verdict):
    """A case in the results: all fields of its verdict, its figures and its launches.

    Attributes:
        id: The id of the test, such as ``jax-default-float32-4K``.
        figures: The numbers of the verdict, by the id of the figure, such as ``median_s``; unknown
            numbers are left out.
        launches: The launches that measured a time.
        failures: The launches that failed.
        reference_launches: The launches of the interleaved reference stack that measured a time.

    """

    id: str
    figures: Mapping[str, NotNegative]
    launches: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
    reference_launches: tuple[Run, ...] = ()

    def validate(self) -> None:
        """Raise ValueError if the collective is unknown, or runs over a single rank."""
        check_collective(self.case)


@dataclass(frozen=True, kw_only=True, slots=True)
class Results(SessionDocument):
    """The document that `--results` writes; units are seconds, bytes, and 10^9 bytes per second.

    Attributes:
        environment: The machine, the devices and the versions.
        process_hosts: The host of each process, if a group of processes measured; otherwise empty.
        plan: The plan of the launches.
        measuring_s: The duration of measuring in seconds.
        spent_s: The seconds of each phase of measuring: ``starting`` processes, ``measuring`` cases
            and ``ending`` processes.
        extra: The extra values that extensions added to the session, by name.
        cases: The cases in the order of the tests.

    """

    document: str = RESULTS_KIND
    environment: Environment
    process_hosts: tuple[str, ...]
    plan: MeasurementPlan
    measuring_s: NotNegative
    spent_s: Mapping[str, NotNegative]
    extra: Mapping[str, object] = field(default_factory=dict)
    cases: tuple[CaseResult, ...]

    @property
    def verdicts(self) -> tuple[CaseResult, ...]:
        return self.cases

    @property
    def measurements(self) -> dict[CaseSpec, Measurement]:
        """The measurement of each case that has launches, by the CaseSpec of the case."""
        return {
            row.spec: Measurement(case=row.case, runs=row.launches, failures=row.failures)
            for row in self.cases
            if row.case is not None and (row.launches or row.failures)
        }

    @property
    def references(self) -> dict[CaseSpec, Measurement]:
        """The measurement of each case with the reference stack; empty without such a stack."""
        return {
            row.spec: Measurement(case=row.case, runs=row.reference_launches)
            for row in self.cases
            if row.case is not None and row.reference_launches
        }

    @property
    def machine_folders(self) -> tuple[str, ...]:
        """The folders in which baselines and histories of the cases are stored.

        A path is relative, such as ``tpu-v5-lite/4r``. Each number of ranks and each mesh has a
        folder of its own.
        """
        key = self.environment.key
        cases = (verdict.case for verdict in self.cases if verdict.case is not None)
        keys = [key, *(replace(key, ranks=case.ranks, mesh=case.mesh) for case in cases)]
        return tuple(dict.fromkeys(str(key.folder) for key in keys))

    def describe_without_verdict(self) -> SessionDescription:
        """Return the title, the facts and the tables, and a paragraph for each injected loss.

        The title names the collective, the device and the ranks. The paragraphs are the `changes`
        of the result.
        """
        environment, key = self.environment, self.environment.key
        names = {verdict.case.collective for verdict in self.cases if verdict.case is not None}
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
                "began": self.began_text,
                "hosts": ", ".join(dict.fromkeys(self.process_hosts or (environment.host,))),
                "flags": ", ".join(f"{name}={value}" for name, value in environment.flags.items()),
                "commit": environment.commit,
                "busbw": self.busbw,
            },
            tables=session_tables(
                self.cases, measurements, verbose=True, changed_options=environment.changed
            ),
            changes=[
                (f"injected: {text}; the times are not real.", ())
                for text in sorted(filter(None, injected))
            ],
        )


def check_collective(case: Case | None, field_name: str = "case") -> None:
    """Raise ValueError if a case has an unknown collective, or a collective over a single rank.

    The message begins with `field_name`, the name of the field that has the case. If `case` is
    None, or the case of a user's program, nothing is checked.
    """
    # A user's program contains any collectives, and its case names none of them.
    if case is None or not case.is_single_collective:
        return
    if case.collective not in COLLECTIVES:
        raise ValueError(f"{field_name}.collective: expected one of {', '.join(COLLECTIVES)}")
    if case.group_size < 2:
        raise ValueError(f"{field_name}: one rank is no collective")


def case_result(
    verdict: Verdict,
    measurement: Measurement | None,
    reference: Measurement | None,
) -> CaseResult:
    """Return the CaseResult of a case: its verdict, its figures and its launches.

    Args:
        verdict: The verdict of the case.
        measurement: The measurement of the case; None if the case was not measured.
        reference: The measurement of the interleaved reference stack; None without a reference.

    """
    return dataclass_from(
        CaseResult,
        verdict,
        id=verdict.spec.id,
        figures={
            name: value
            for name, value in figure_values_for_documents(verdict).items()
            if value is not None
        },
        launches=measurement.runs if measurement else (),
        failures=measurement.failures if measurement else (),
        reference_launches=reference.runs if reference else (),
    )


def read_results(content: str | bytes) -> SessionDocument:
    """Return the document of a session, given the `content` of its file of results.

    Any mode may have written the file. The extra values of launches stay as JSON has them. Raises
    WireError if the content is not valid.
    """
    document = wire.parse_json(content)
    name = str(document.get("document")) if isinstance(document, dict) else RESULTS_KIND
    kinds = extensions.load_table("RESULTS", name)
    expected_name = name if name in kinds else RESULTS_KIND
    wire.check_document(document, expected_name, "record it again with --results")
    session: SessionDocument = wire.from_json(kinds.get(name, Results), document, "document")
    if not isinstance(session, Results):
        return session
    cases = (
        replace(case, extra=extensions.with_declared_types(case.extra, f"cases[{index}].extra"))
        for index, case in enumerate(session.cases)
    )
    return replace(session, cases=tuple(cases))


def shorten_homes_in_document(document: object, home: str) -> object:
    """Return a copy of a JSON document with ``~`` in place of the home directories of all users.

    `home` is the home directory of this user.
    """
    if isinstance(document, dict):
        return {key: shorten_homes_in_document(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [shorten_homes_in_document(value, home) for value in document]
    return variables.shorten_homes(document, home) if isinstance(document, str) else document


def is_results_document(text: str) -> bool:
    """Return whether `text` begins like a file of results, in JSON or CSV, of any mode."""
    kinds = (RESULTS_KIND, *extensions.names_in_extension_tables("RESULTS"))
    heads = (f'{{\n "document": "{kind}",' for kind in kinds)
    return text.startswith((*heads, f"case,{','.join(CASE_LABELS)},"))
