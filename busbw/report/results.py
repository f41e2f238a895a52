"""A session as one JSON document, measured or compiled: what is declared here is what is written.

`busbw.report.reading` reads it back; the schema in docs/ is generated from these classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import wire
from busbw.model import variables
from busbw.model.case import converted
from busbw.model.counters import Reading
from busbw.model.launch import Failure, Measurement, Plan, Run
from busbw.model.limits import NotNegative, Positive
from busbw.model.machine import Compiler, Environment
from busbw.model.verdict import SessionVerdict, Verdict

from .figures import kept

# What a document says that it is.
RESULTS = "busbw results"


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult(Verdict):
    """One case: its `id`, the verdict, the `figures` of the tables, and what its launches gave.

    `failures` are launches that gave no time, and `reference_launches` those of the other side of
    a pair. `quantiles_s` are of each launch's samples.
    """

    id: str
    figures: Mapping[str, NotNegative]
    launches: tuple[Run, ...] = ()
    failures: tuple[Failure, ...] = ()
    reference_launches: tuple[Run, ...] = ()
    quantiles_s: tuple[Mapping[str, Positive], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """What `--results` writes: seconds, bytes, 10^9 bytes per second.

    `busbw` is the version that wrote it. `process_hosts` has the name of the host of each process
    of a group; `spent_s` is what `measuring_s` went to. `counters` are what devices count of
    themselves, the first and the last reading of each host. `command` repeats the session.
    `session` is null where its test did not run; `environment`, `plan` and `measuring_s` are, where
    nothing was measured but compiled, which `compilers` did.
    """

    document: str = RESULTS
    version: int = wire.VERSION
    busbw: str
    began: str
    host: str
    environment: Environment | None
    process_hosts: tuple[str, ...]
    plan: Plan | None
    measuring_s: NotNegative | None
    spent_s: Mapping[str, NotNegative]
    compilers: tuple[Compiler, ...]
    counters: tuple[Reading, ...] = ()
    command: str = ""
    session: SessionVerdict | None
    cases: tuple[CaseResult, ...]


def case_result(
    verdict: Verdict,
    measured: Measurement | None,
    reference: Measurement | None,
    quantiles_s: Sequence[Mapping[str, float]],
) -> CaseResult:
    """`reference` is what was measured in turn with the case, `quantiles_s` of each of its runs."""
    return converted(
        CaseResult,
        verdict,
        id=verdict.spec.id,
        figures={one.id: value for one, value in kept(verdict).items() if value is not None},
        launches=measured.runs if measured else (),
        failures=measured.failures if measured else (),
        reference_launches=reference.runs if reference else (),
        quantiles_s=tuple(quantiles_s),
    )


def without_homes(document: object, home: str) -> object:
    """`document` with ``~`` for every home directory, in paths, messages and the ends of logs."""
    if isinstance(document, dict):
        return {key: without_homes(value, home) for key, value in document.items()}
    if isinstance(document, list):
        return [without_homes(value, home) for value in document]
    return variables.without_homes(document, home) if isinstance(document, str) else document


def is_results(text: str) -> bool:
    """Whether `text` is the document of a session, of this format."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    wanted = {"document": RESULTS, "version": wire.VERSION}.items()
    return isinstance(document, dict) and wanted <= document.items()
