"""The JSON document that --results writes; the fields of these classes are the document's keys.

`busbw.report.reading` reads the document. The schema in docs/ is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw import extensions, wire
from busbw.model import variables
from busbw.model.case import convert_to
from busbw.model.field_types import Moment, NotNegative
from busbw.model.launch import Failure, Measurement, Plan, Run
from busbw.model.machine import Environment
from busbw.model.verdict import SessionVerdict, Verdict

from .figures import CASE_LABELS, figure_values_for_documents

# The value of the key `document`, which tells the kinds of documents apart.
RESULTS_KIND = "busbw results"


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDocument:
    """The fields that every JSON document of a session contains.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Results(SessionDocument):
    """The document that `--results` writes; units are seconds, bytes, and 10^9 bytes per second.

    Attributes:
        environment: The machine, the devices and the versions.
        process_hosts: The host of each process, if a group of processes measured; otherwise empty.
        plan: The plan of the launches.
        measuring_s: The duration of measuring.
        spent_s: The parts of this duration: ``starting`` processes, ``measuring`` cases and
            ``ending`` processes.
        extra: The extra values that extensions added to the session, by name.
        cases: The cases in the order of the tests.

    """

    document: str = RESULTS_KIND
    environment: Environment
    process_hosts: tuple[str, ...]
    plan: Plan
    measuring_s: NotNegative
    spent_s: Mapping[str, NotNegative]
    extra: Mapping[str, object] = field(default_factory=dict)
    cases: tuple[CaseResult, ...]


def case_result(
    verdict: Verdict,
    measurement: Measurement | None,
    reference: Measurement | None,
) -> CaseResult:
    """Return the part of the results that describes a case.

    Args:
        verdict: The verdict of the case.
        measurement: The measurement of the case; None if the case was not measured.
        reference: The measurement of the interleaved reference stack; None without a reference.

    """
    return convert_to(
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


def abbreviate_homes(document: object, home: str) -> object:
    """Return a copy of a JSON document with ``~`` in place of the home directories of all users.

    `home` is the home directory of this user.
    """
    if isinstance(document, dict):
        return {key: abbreviate_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [abbreviate_homes(value, home) for value in document]
    return variables.shorten_homes(document, home) if isinstance(document, str) else document


def is_results(text: str) -> bool:
    """Return whether `text` begins like a file that --results of any session mode wrote."""
    kinds = (RESULTS_KIND, *extensions.declared_names("RESULTS"))
    heads = (f'{{\n "document": "{kind}",' for kind in kinds)
    return text.startswith((*heads, f"case,{','.join(CASE_LABELS)},"))
