"""Sessions and histories with all that pages can show; no test lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from busbw.extensions.compiled.results import CompiledResults
from busbw.extensions.page.page import Chapter, make_chapters
from busbw.extensions.program.worker_values import ProgramDifference
from busbw.history.files import HistoryLine
from busbw.history.levels import MachineHistory, build_machine_history
from busbw.model.field_types import moment_text
from busbw.model.launch import Failure, LaunchId
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.report.results import Results
from busbw.report.table import Column
from tests.helpers import build
from tests.helpers import compiled as made_compiled
from tests.helpers.compiled import program
from tests.helpers.history_lines import line
from tests.helpers.results_files import session, verdict
from tests.unit.history.year import FOLDER, year

BEGIN = datetime(2026, 1, 1, 3, tzinfo=UTC)
SLOW: Mapping[str, Any] = dict(outcome=Outcome.REGRESSED, failed=True, ratio=1.5, limit=1.2)
LOST: Mapping[str, Any] = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}


def answered(*verdicts: Verdict, text: str = "because", **changes: Any) -> Results:
    """Return a session whose own test ran: FAILED if a case did, else PASS."""
    failed = any(verdict.failed for verdict in verdicts)
    outcome = SessionOutcome.FAILED if failed else SessionOutcome.PASS
    answer = SessionVerdict(outcomes=(outcome,), text=text, **changes)
    return replace(session(*verdicts), session=answer)


def regression() -> Results:
    """Return a session with most outcomes, of three processes on two hosts, with a reference."""
    failure = Failure(
        kind=FailureKind.CRASHED, message="gone", launch=LaunchId(name="1"), log="one\n  two"
    )
    ring = {"framework": "tensorflow", "strategy": "ring"}
    failed = answered(
        verdict(8192, 7.0, outcome=Outcome.IMPROVED, ratio=0.5, text="half the time"),
        verdict(4096, 6.0, **SLOW, ratio_interval=(1.4, 1.6)),
        verdict(1 << 20, None, outcome=Outcome.FAILED, failed=True, failure=failure),
        verdict(2 << 20, None),
        verdict(1024, None, dtype="int32", outcome=Outcome.SKIPPED, text="not on a CPU"),
        verdict(4096, 6.0, **ring),
        verdict(8192, 5.0, outcome=Outcome.NOISY, ratio=1.1, text="far apart", **ring),
    )
    runs = (
        build.run(),
        build.run(injected="delay:50%"),
    )
    key = build.key(hosts=2, processes=3, mesh="2x2")
    return replace(
        failed,
        cases=tuple(
            replace(case, launches=runs, reference_launches=(build.run(),)) for case in failed.cases
        ),
        process_hosts=("a", "a", "b"),
        environment=replace(failed.environment, key=key, commit="0123456789ab", load=0.5),
    )


def compiled() -> CompiledResults:
    """Return a compiled session with changes, two releases, and a topology without a compiler."""
    difference = ProgramDifference(name="strategy", before="Ring", now="Tree", fails=True)
    changed = {"outcome": Outcome.CHANGED, "text": "ring -> tree", "differences": (difference,)}
    lacking = {"outcome": Outcome.SKIPPED, "now": None, "text": "no XLA", "topology": "h100:8"}
    return made_compiled.session(
        program(4096, 8192, failed=True, **changed),
        program(8192, 12288, outcome=Outcome.CHANGED, text="accepted: a tree"),
        program(16384, 8192, release="libtpu 0.0.43"),
        program(32768, None),
        program(4096, 1, **lacking),
        missing="no XLA",
        outcome=SessionOutcome.FAILED,
    )


def session_line(number: int, **changes: Any) -> HistoryLine:
    """Return the line of a case in the session of that day."""
    began = moment_text(BEGIN + timedelta(days=number))
    return line(**{"session": f"{number:016x}", "moment": began, **changes})


def machine(*lines: HistoryLine) -> MachineHistory:
    """Return the history of one machine."""
    return build_machine_history("tpu/4r", lines)


def changed() -> MachineHistory:
    """Return the history of a case that is slower since a version, and was once out of memory."""

    def of_day(number: int) -> HistoryLine:
        level, outcome = (15.0, Outcome.REGRESSED) if number >= 8 else (10.0, Outcome.PASS)
        times_us = tuple(level * (1 + (number + launch) % 3 / 1000) for launch in range(3))
        versions = {"jax": f"0.10.{number // 8}"}
        usual: Mapping[str, Any] = {"versions": versions, "times_us": times_us, "outcome": outcome}
        return session_line(number, **{**usual, **(LOST if number == 5 else {})})

    return machine(*map(of_day, range(16)))


def machine_of_a_year() -> MachineHistory:
    """Return the 357 sessions of a year with planted changes."""
    return build_machine_history(FOLDER, tuple(year()))


def whole_page() -> list[Chapter]:
    """Return the chapters of a page with a session of most outcomes and a history."""
    return make_chapters([regression()], [changed()])


def spoiled(value: Any, text: str) -> Any:
    """Return a page with `text` before each text that is not empty, its names too."""
    if isinstance(value, str):
        return text + value if value else ""
    if isinstance(value, Column):
        return replace(value, heading=text + value.heading, unit=text)
    if isinstance(value, Mapping):
        return {key: spoiled(part, text) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(spoiled(part, text) for part in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: spoiled(getattr(value, field.name), text) for field in fields(value)}
    return replace(value, **parts)
