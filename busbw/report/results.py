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

from .figures import document_figure_values

# The value of the key `document`, which tells the kinds of documents apart.
RESULTS = "busbw results"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult(Verdict):
    """A case with its `id` (such as ``jax-default-float32-4K``) and all fields of its verdict.

    `figures` has the numbers that tables show, by name, such as ``median_s``. `launches` are the
    launches that measured a time, and `failures` are the launches that did not.
    `reference_launches` are the launches of the interleaved reference stack.
    """

    id: str
    figures: Mapping[str, NotNegative]
    launches: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
    reference_launches: tuple[Run, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDocument:
    """The fields that every JSON document of a session has.

    `document` names the kind of document, and `version` is the version of its format. `busbw` is
    the version of busbw that wrote the document. `began` is when the session began (UTC), `host` is
    the name of the host that ran it, and `command` is the shell command that repeats it. `session`
    is the verdict on the session, null if the session ended before the verdict was known.
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
    """The document that `--results` writes; units are seconds, bytes, and 10^9 bytes per second.

    `environment`, `plan` and `measuring_s` are null if no device was found. `process_hosts` has the
    name of the host of each process, if a group of processes measured. `measuring_s` is how long
    the session measured, and `spent_s` has the seconds of each phase of that time: ``starting``
    processes, ``measuring`` cases and ``ending`` processes. `extra` has the values of extensions by
    name.
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
    """Return the part of the results that describes one case.

    Args:
        verdict: The verdict of the case.
        measured: The measurement of the case; None if the case was not measured.
        reference: The measurement of the interleaved reference stack; None without a reference.

    """
    return convert_to(
        CaseResult,
        verdict,
        id=verdict.spec.id,
        figures={
            figure.id: value
            for figure, value in document_figure_values(verdict).items()
            if value is not None
        },
        launches=measured.runs if measured else (),
        failures=measured.failures if measured else (),
        reference_launches=reference.runs if reference else (),
    )


def abbreviate_homes(document: object, home: str) -> object:
    """Return a copy of a JSON document whose texts have ``~`` in place of home directories.

    `home` is the home directory of this user. The homes of other users are replaced, too.
    """
    if isinstance(document, dict):
        return {key: abbreviate_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [abbreviate_homes(value, home) for value in document]
    return variables.shorten_homes(document, home) if isinstance(document, str) else document


def is_results_json(text: str) -> bool:
    """Return whether `text` begins like JSON that --results wrote, by busbw or by an extension."""
    kinds = (RESULTS, *extensions.declared_names("RESULTS"))
    return text.startswith(tuple(f'{{\n "document": "{kind}",' for kind in kinds))
