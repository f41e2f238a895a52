"""A session as one JSON document: the fields of these classes are its keys.

`busbw.report.reading` reads it back; the schema in docs/ is generated from these classes.
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

from .figures import document_figures

# The kind of document, which its key `document` names.
RESULTS = "busbw results"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult(Verdict):
    """One case: its `id`, the verdict, the `figures` of the tables, and its `launches`.

    `failures` are launches that gave no time, and `reference_launches` the launches of the
    interleaved reference.
    """

    id: str
    figures: Mapping[str, NotNegative]
    launches: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
    reference_launches: tuple[Run, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDocument:
    """What every document of a session has.

    `busbw` is the version that wrote it, and `command` repeats the session. `session` is null where
    its test did not run.
    """

    document: str
    version: int = wire.VERSION
    busbw: str
    began: Moment
    host: str
    command: str = ""
    session: SessionVerdict | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Results(SessionDocument):
    """What `--results` writes: seconds, bytes, 10^9 bytes per second.

    `process_hosts` has the name of the host of each process of a group; `spent_s` is what
    `measuring_s` went to. `extra` has the values of extensions by name. `environment`, `plan` and
    `measuring_s` are null where no device was found.
    """

    document: str = RESULTS
    environment: Environment | None
    process_hosts: tuple[str, ...]
    plan: Plan | None
    measuring_s: NotNegative | None
    spent_s: Mapping[str, NotNegative]
    extra: Mapping[str, object] = field(default_factory=dict)
    cases: tuple[CaseResult, ...]


def case_result(
    verdict: Verdict,
    measured: Measurement | None,
    reference: Measurement | None,
) -> CaseResult:
    """Return the results of a case.

    Args:
        verdict: The verdict of the case.
        measured: The measurement of the case, None if it was not measured.
        reference: The measurement of the interleaved reference, None without a reference.

    """
    return convert_to(
        CaseResult,
        verdict,
        id=verdict.spec.id,
        figures={
            figure.id: value
            for figure, value in document_figures(verdict).items()
            if value is not None
        },
        launches=measured.runs if measured else (),
        failures=measured.failures if measured else (),
        reference_launches=reference.runs if reference else (),
    )


def without_homes(document: object, home: str) -> object:
    """Replace every home directory in the texts of `document` by ``~``."""
    if isinstance(document, dict):
        return {key: without_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [without_homes(value, home) for value in document]
    return variables.shorten_homes(document, home) if isinstance(document, str) else document


def is_results(text: str) -> bool:
    """Return whether `text` begins as the document of a session, also one of an extension."""
    kinds = (RESULTS, *extensions.declared_names("RESULTS"))
    return text.startswith(tuple(f'{{\n "document": "{kind}",' for kind in kinds))
