"""The frozen values of a session, in order: CollectedSession, MeasuredSession, JudgedSession.

Each step of the session makes a new value from the value of the step before. An extension that
compiles instead of measuring has its own subclass of CollectedSession in place of MeasuredSession.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from busbw.baselines.store import BaselineSearchResult
from busbw.driver.bundle import worker_hash
from busbw.grid import MeasuredDevices
from busbw.judge.levels import EarlierSessions
from busbw.judge.policy import POLICIES, Policy
from busbw.model.case import Case, CaseSpec
from busbw.model.field_types import moment_text
from busbw.model.launch import Measurement, MeasurementPlan
from busbw.model.machine import Environment, EnvironmentKey, Probe
from busbw.model.stored import Record, round_microseconds
from busbw.model.verdict import PublishedBandwidth, SessionVerdict, Verdict
from busbw.model.words import SessionOutcome
from busbw.report.table import Table
from busbw.stats.launches import launch_time_s

from .options import Options


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectedSession:
    """A session while pytest collects its tests, and afterwards.

    Attributes:
        options: The options of the session.
        grid: The CaseSpecs of all tests that were collected so far, including tests that pytest's
            -k deselects.
        specs: The CaseSpecs of the selected tests; empty until all tests are collected.
        began: The moment in UTC when the session began.
        measurements: The launches of each case; with two stacks, the launches of the candidate.
            Empty until the session measures, and in a session that measures nothing.

    """

    options: Options
    grid: tuple[CaseSpec, ...] = ()
    specs: tuple[CaseSpec, ...] = ()
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    measurements: Mapping[CaseSpec, Measurement] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """The day in UTC when the session began, such as ``2026-11-20``."""
        return self.began.date().isoformat()


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The devices that a session measures on, and the probes of the frameworks.

    Attributes:
        target: The devices that the session measures on.
        probes: The devices and versions that each framework of the candidate stack finds.
        references: The devices and versions that each framework of the reference stack finds; empty
            with a single stack.

    """

    target: MeasuredDevices
    probes: tuple[Probe, ...]
    references: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedJob:
    """A job of a session: a case to measure, and the stored times to compare the case with.

    Attributes:
        case: The case to measure.
        key: The environment key under which times of the case are stored.
        baseline_search: The baseline that was found for the case, if any. Empty if two stacks are
            interleaved.
        published: The published bandwidth of the case; None if none was published.

    """

    case: Case
    key: EnvironmentKey
    baseline_search: BaselineSearchResult = field(default_factory=BaselineSearchResult)
    published: PublishedBandwidth | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredSession(CollectedSession):
    """A session that measures its cases, with its jobs and the measurements so far.

    Attributes:
        jobs: The cases to measure with their stored times, by CaseSpec.
        skipped_verdicts: The verdicts of the cases that cannot be measured, by CaseSpec.
        machine: The devices that the session measures on.
        environment: The devices, versions and flags to record with the results.
        plan: How long and how often each case is measured.
        levels: The earlier sessions of each environment key that has baselines, from which the
            expected times are computed.
        references: The launches of each case with the reference stack; empty with a single stack.
        measuring_s: How long measuring took, in seconds.
        spent_s: The durations of the phases ``starting`` (of processes), ``measuring`` and
            ``ending`` in seconds, by phase.
        lost_host_text: The message about a lost host; empty if no host was lost.
        extra: The extra values that extensions add to the session, by name.

    """

    jobs: Mapping[CaseSpec, TimedJob]
    skipped_verdicts: Mapping[CaseSpec, Verdict]
    machine: Machine
    environment: Environment
    plan: MeasurementPlan
    levels: Mapping[EnvironmentKey, EarlierSessions] = field(default_factory=dict)
    references: Mapping[CaseSpec, Measurement] = field(default_factory=dict)
    measuring_s: float = 0.0
    spent_s: Mapping[str, float] = field(default_factory=dict)
    lost_host_text: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        """The thresholds of the judging rules for the measured class of device."""
        return POLICIES[self.machine.target.device]

    def record_of(self, measurement: Measurement, flags: Mapping[str, str] | None = None) -> Record:
        """Return a Record of the times of a case, to store in a baseline or in the history.

        `measurement` has the launches of the case. `flags` are the environment variables of the
        stack that was measured, by name; None means the flags of the candidate.
        """
        runs = measurement.runs
        common = dict(runs[0].extra) if runs else {}
        return Record(
            moment=moment_text(self.began),
            commit=self.environment.commit,
            times_us=tuple(round_microseconds(1e6 * launch_time_s(run)) for run in runs),
            versions=runs[0].versions if runs else {},
            surroundings=self.environment.flags if flags is None else flags,
            host=platform.node(),
            worker=worker_hash(),
            # Only the extra values that all launches share.
            extra={
                name: value
                for name, value in common.items()
                if all(run.extra.get(name) == value for run in runs)
            },
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedSession:
    """A session with verdicts and, at the end, with notes and errors on the written files.

    Attributes:
        session_verdict: The verdict of the session.
        verdicts: The verdicts of the selected cases, by CaseSpec.
        observations: The session that was judged, usually a MeasuredSession. A CollectedSession if
            no machine was available.
        cases_to_replace: The cases whose stored times --update-baselines replaces, even if the case
            is PASS.
        notes: Lines to print at the end of the session.
        baseline_tables: Tables of the baselines that were written or removed.
        errors: Lines on files that could not be written, and on times that could not be accepted.
        failing_since: Lines that say since which session of the history the failed cases fail, and
            which changes of the stack that session has.

    """

    observations: CollectedSession
    session_verdict: SessionVerdict
    verdicts: Mapping[CaseSpec, Verdict]
    cases_to_replace: frozenset[Case] = frozenset()
    notes: tuple[str, ...] = ()
    baseline_tables: tuple[Table, ...] = ()
    errors: tuple[str, ...] = ()
    failing_since: tuple[str, ...] = ()

    @property
    def options(self) -> Options:
        """The options of the session."""
        return self.observations.options

    def with_notes(self, *notes: str) -> JudgedSession:
        """Return the session with `notes` added: lines to print at the end of the session."""
        return replace(self, notes=(*self.notes, *notes))

    def with_failing_error(self, error: str) -> JudgedSession:
        """Return the session with one more error, with which the session fails.

        A session that had not failed gets the outcome NO_VERDICT. `error` is a line for the user,
        and is also added to the text of the session's verdict.
        """
        verdict = self.session_verdict
        # The summary has the text of the verdict, and not the errors.
        verdict = (
            replace(verdict, text=f"{verdict.text}; {error}")
            if verdict.failed
            else verdict.with_failure(SessionOutcome.NO_VERDICT, error)
        )
        return replace(self, errors=(*self.errors, error), session_verdict=verdict)
