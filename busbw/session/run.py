"""Run the steps of a session without pytest: from the collected cases to verdicts and files.

The plugin collects, runs and shows a session through its Mode: a session measures its cases, or
does something else with the cases. An extension declares other modes in its table MODES, by the
name of the fixture that the tests read, as functions of the Options. Such a function returns a Mode
if the options request the mode, else None.
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
from busbw.report.table import Table, attributes_or_none

from .accept import accept_times, write_requested_baselines
from .judge import judge_measured
from .machine import check_options_on_host, find_machine
from .measure import Display, measure_cases
from .option import as_usage_error
from .options import Options
from .record import results_text, write_outputs
from .resolve import resolve_cases
from .state import CollectedSession, JudgedSession, MeasuredSession


@contextlib.contextmanager
def open_transport(options: Options) -> Iterator[Transport]:
    """Yield the Transport to the hosts of a session, and close the Transport at the end.

    Errors in the `with` block become UsageErrors, too: a host that cannot be used, and errors of
    the operating system, such as a full disk.
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
    """Run the selected cases `specs` by `run_cases`, and return the JudgedSession.

    If the worker that probes the devices dies or hangs twice, or if hosts have different devices or
    versions, every case fails. `display` shows the progress.

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

    `reason`, such as a lost host, is the text of the session's verdict and of each case's verdict.
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
    """Find the machine, resolve the cases and call `run_resolved`, all under the machine's lock.

    No other session measures on the machine or on the session's hosts in the meantime.
    `run_resolved` gets a MeasuredSession without measurements. The JudgedSession that
    `run_resolved` returns is the result.
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
    return run_under_machine_lock(collected_session, executor, display, _measure_resolved)


def _measure_resolved(
    resolved_session: MeasuredSession, executor: Executor, display: Display
) -> JudgedSession:
    judged_session = judge_measured(measure_cases(resolved_session, executor, display))
    for notes_of in extensions.load_functions("notes"):
        for note in notes_of(judged_session):
            executor.on_note(note)
    return judged_session


def accept_and_write(judged_session: JudgedSession) -> JudgedSession:
    """Write accepted baselines, the history and the requested files of a session that measured.

    Returns the JudgedSession with notes on the files, and with errors of writing. Nothing is
    written of a session that could not measure, for example because a host was lost.
    """
    if not isinstance(judged_session.observations, MeasuredSession):
        return judged_session
    return write_outputs(write_requested_baselines(judged_session, accept_times), results_text)


# The tables of a session, and the lines that explain them.
TablesAndLegend = tuple[Sequence[Table], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A kind of session, such as measuring: how cases are collected, run, written and shown.

    Attributes:
        fixture: The name of the pytest fixture by which tests read the verdicts.
        collected_session: The session before any test is collected.
        select_specs: Returns the CaseSpecs of a test. Raises GridError if no case can be run.
        run_cases: Runs and judges the selected cases.
        write_files: Writes baselines, the history and the requested files, and returns the
            JudgedSession with the notes and errors of writing.
        tables: Returns the tables of a session, and the lines that explain the tables. The last
            argument is True with -v.
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


def mode_of(options: Options) -> Mode:
    """Return the mode that the options request: a mode of an extension, or else measuring.

    Raises UsageError if the options of a mode are wrong.
    """
    fixtures = dict.fromkeys(extensions.declared_names("MODES"))
    makers = (make for fixture in fixtures for make in extensions.load_functions(fixture, "MODES"))
    modes = (make(options) for make in makers)
    return next(filter(None, modes), None) or measuring_mode(options)


def measuring_mode(options: Options) -> Mode:
    """Return the mode that measures the cases, which are the combinations of the options."""
    return Mode(
        fixture="busbw_verdict",
        collected_session=CollectedSession(options=options),
        select_specs=grid.select_specs,
        tables=_make_tables,
        make_junit_properties=_junit_properties,
    )


def _make_tables(judged_session: JudgedSession, verbose: bool) -> TablesAndLegend:
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
    properties = {
        "outcome": verdict.outcome.value,
        "provisional": verdict.provisional,
        **attributes_or_none(verdict.spec, "framework", "collective", "dtype"),
        **attributes_or_none(verdict.case, "strategy", "payload_bytes", "ranks"),
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
