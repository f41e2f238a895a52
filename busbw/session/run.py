"""Run the steps of a session, from the collected cases to verdicts and files, without pytest.

A Mode says what a session does: it measures its cases, or does something else with them. The
pytest plugin collects, runs and shows a session by the functions of its Mode. An extension declares
other modes in its table MODES: a function of the Options, by the name of the fixture that the tests
read. Such a function returns a Mode if the options request the mode, else None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw import extensions, grid
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport, lock_this_machine
from busbw.driver.transport import HostError, HostLostError, IncomparableHostsError, Transport
from busbw.model.case import CaseSpec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.report import session as report
from busbw.report.conclusion import legend_lines
from busbw.report.figures import figure_values_for_documents
from busbw.report.table import Table, attributes_by_name

from .accept import accept_times, write_requested_baselines
from .judge import judge_measured_session
from .machine import check_options_on_host, find_machine
from .measure import Display, measure_cases
from .option import as_usage_error
from .options import Options
from .record import results_text, write_history_and_outputs
from .resolve import resolve_cases
from .state import CollectedSession, JudgedSession, MeasuredSession


@contextlib.contextmanager
def open_transport(options: Options) -> Iterator[Transport]:
    """Yield the Transport that starts workers on hosts, and close the Transport at the end.

    A HostError (a host cannot be used) or an OSError (such as a full disk) becomes a UsageError,
    also if the `with` block raises it.
    """
    with as_usage_error(HostError, OSError), contextlib.ExitStack() as stack:
        bundle = Bundle()
        stack.callback(bundle.remove)
        yield stack.enter_context(
            contextlib.closing(
                options.remote.make_transport(bundle) if options.remote else LocalTransport(bundle)
            )
        )


# Measures the selected cases or does something else with them, and judges them.
RunCases = Callable[[CollectedSession, Executor, Display], JudgedSession]


def run_session(
    collected_session: CollectedSession,
    specs: Sequence[CaseSpec],
    display: Display,
    run_cases: RunCases,
) -> JudgedSession:
    """Call `run_cases` with the selected cases `specs`, and return the JudgedSession.

    `run_cases` measures and judges the cases, or does what another mode does. `display` shows the
    progress. Every case fails if the worker that probes the devices dies or hangs twice, or if
    hosts have different devices or versions.

    Raises:
        UsageError: Options, files or devices cannot be used, or the operating system reports an
            error, such as a full disk.

    """
    collected_session = replace(collected_session, specs=tuple(specs))
    notes = list[str]()
    with open_transport(collected_session.options) as transport:
        executor = Executor(transport, notes.append)
        try:
            judged_session = run_cases(collected_session, executor, display)
        except HostLostError as error:
            judged_session = _fail_all_cases(collected_session, str(error), Outcome.FAILED)
        except IncomparableHostsError as error:
            judged_session = _fail_all_cases(collected_session, str(error), Outcome.INCOMPARABLE)
    return replace(judged_session, notes=tuple(notes))


def _fail_all_cases(
    collected_session: CollectedSession, reason: str, outcome: Outcome
) -> JudgedSession:
    """Return the JudgedSession of a session that could not measure: all cases get `outcome`.

    `reason` says why, and is the text of the session's verdict and of each case's verdict.
    """
    return JudgedSession(
        observations=collected_session,
        session_verdict=SessionVerdict(
            outcomes=(SessionOutcome.FAILED, SessionOutcome.NO_VERDICT), text=reason
        ),
        verdicts={
            spec: Verdict(spec=spec, outcome=outcome, failed=True, text=reason)
            for spec in collected_session.specs
        },
    )


def run_under_machine_lock(
    collected_session: CollectedSession,
    executor: Executor,
    display: Display,
    run_resolved: Callable[[MeasuredSession, Executor, Display], JudgedSession],
) -> JudgedSession:
    """Lock the machine, find its devices and the cases, and return what `run_resolved` returns.

    `run_resolved` gets a MeasuredSession without measurements, and returns a JudgedSession. Until
    then no other session of busbw measures on this machine or on the session's hosts.
    """
    wait_s = collected_session.options.device_wait
    check_options_on_host(collected_session)
    waiting = "another busbw session is measuring on this machine; waiting for its end"
    with lock_this_machine(wait_s, lambda holder: display.write_line(f"{waiting} ({holder})")):
        executor.transport.connect_hosts(wait_s)
        executor.transport.lock(wait_s, display.write_line)
        # If two processes must share a single GPU, the options change.
        options, machine = find_machine(collected_session, executor)
        collected_session = replace(collected_session, options=options)
        resolved_session = resolve_cases(collected_session, machine, executor, display.write_line)
        display.write_header(resolved_session)
        return run_resolved(resolved_session, executor, display)


def measure_and_judge(
    collected_session: CollectedSession, executor: Executor, display: Display
) -> JudgedSession:
    """Measure and judge the selected cases, under the machine's lock; return the JudgedSession."""
    return run_under_machine_lock(
        collected_session, executor, display, _measure_and_judge_under_lock
    )


def _measure_and_judge_under_lock(
    resolved_session: MeasuredSession, executor: Executor, display: Display
) -> JudgedSession:
    """Measure and judge the cases; add the notes of extensions to those of the session.

    `resolved_session` has the cases to measure, and no measurements yet. The machine is locked.
    """
    judged_session = judge_measured_session(measure_cases(resolved_session, executor, display))
    for notes_of in extensions.load_declared_functions("notes"):
        for note in notes_of(judged_session):
            executor.on_note(note)
    return judged_session


def accept_and_write(judged_session: JudgedSession) -> JudgedSession:
    """Write accepted baselines, the history and the files that options request.

    Returns the JudgedSession with notes on the written files, and with an error for each file that
    could not be written. Nothing is written if the session could not measure, for example because
    hosts have different versions.
    """
    if not isinstance(judged_session.observations, MeasuredSession):
        return judged_session
    return write_history_and_outputs(
        write_requested_baselines(judged_session, accept_times), results_text
    )


# The tables of a session, and the lines that explain them.
TablesAndLegend = tuple[Sequence[Table], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Mode:
    """What a session does with its cases, such as measuring: functions for each step.

    Attributes:
        fixture: The name of the pytest fixture by which tests read the verdicts.
        collected_session: The session at its start, before any test is collected.
        select_specs: Returns the CaseSpecs that the options request. Raises GridError if no case
            can be run.
        run_cases: Runs and judges the selected cases.
        write_files: Writes baselines, the history and the requested files, and returns the
            JudgedSession with the notes and errors of writing.
        tables: Returns the tables of a session, and the lines that explain the tables. The second
            argument says whether the tables have more details, as with -v.
        make_junit_properties: Returns the properties of a case in the JUnit XML file, by name. The
            JudgedSession is None if the session has no verdicts yet.

    """

    fixture: str
    collected_session: CollectedSession
    select_specs: Callable[[Options], tuple[CaseSpec, ...]]
    run_cases: RunCases = measure_and_judge
    write_files: Callable[[JudgedSession], JudgedSession] = accept_and_write
    tables: Callable[[JudgedSession, bool], TablesAndLegend]
    make_junit_properties: Callable[[Verdict, JudgedSession | None], dict[str, object]]


def requested_mode(options: Options) -> Mode:
    """Return the mode that the options request: a mode of an extension, or else measuring.

    Raises UsageError if the options of a mode are wrong.
    """
    fixtures = dict.fromkeys(extensions.names_in_extension_tables("MODES"))
    makers = (
        make
        for fixture in fixtures
        for make in extensions.load_declared_functions(fixture, "MODES")
    )
    modes = (make(options) for make in makers)
    return next(filter(None, modes), None) or measuring_mode(options)


def measuring_mode(options: Options) -> Mode:
    """Return the mode that measures all cases that `options` request."""
    return Mode(
        fixture="busbw_verdict",
        collected_session=CollectedSession(options=options),
        select_specs=grid.select_specs,
        tables=_make_tables,
        make_junit_properties=_junit_properties,
    )


def _make_tables(judged_session: JudgedSession, verbose: bool) -> TablesAndLegend:
    """Return the tables of the measured cases and their legend; both empty if nothing could run."""
    measured_session = judged_session.observations
    verdicts = tuple(judged_session.verdicts.values())
    if not isinstance(measured_session, MeasuredSession):
        return (), ()
    tables = report.session_tables(
        verdicts,
        measured_session.measurements.values(),
        verbose=verbose,
        changed_options=measured_session.environment.changed,
    )
    return tables, legend_lines(verdicts)


def _junit_properties(verdict: Verdict, judged_session: JudgedSession | None) -> dict[str, object]:
    """Return the properties of a case in the JUnit XML file, by name.

    `judged_session` adds the device and the versions; None if the session has no verdicts yet.
    """
    properties = {
        "outcome": verdict.outcome.value,
        "provisional": verdict.provisional,
        **attributes_by_name(verdict.spec, "framework", "collective", "dtype"),
        **attributes_by_name(verdict.case, "strategy", "payload_bytes", "ranks"),
        **figure_values_for_documents(verdict),
    }
    observed = judged_session.observations if judged_session else None
    if isinstance(observed, MeasuredSession) and verdict.spec in observed.measurements:
        key, versions = observed.environment.key, observed.environment.versions
        properties |= {
            "device": key.device_kind,
            "shared_device": key.shared or None,
            "versions": report.versions_text(versions.get(verdict.spec.framework, {})),
        }
    return properties
