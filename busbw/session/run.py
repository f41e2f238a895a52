"""Run the steps of a session without pytest: from the collected cases to verdicts and files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw import extensions
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport, lock_this_machine
from busbw.driver.transport import HostError, HostLostError, IncomparableHostsError, Transport
from busbw.model.case import CaseSpec
from busbw.model.words import Outcome

from .accept import accept_baselines, accept_times
from .errors import UsageError, raise_with_remedy, usage_error
from .judge import fail_all_cases, judge_measured
from .machine import check_request, find_machine
from .measure import measure_cases
from .options import Options
from .progress import Display
from .record import results_text, write_outputs
from .resolve import resolve_cases
from .state import CollectedSession, JudgedSession, MeasuredSession


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningSession:
    """The objects that all steps of a running session use.

    `specs` are the selected cases. `executor` starts workers on this host or on other hosts.
    """

    specs: tuple[CaseSpec, ...]
    executor: Executor
    display: Display


@contextlib.contextmanager
def open_transport(options: Options) -> Iterator[Transport]:
    """Yield the Transport to the hosts of a session, and close it at the end.

    Raises UsageError if a host cannot be used, or if a limit of the operating system is reached.
    """
    with raise_with_remedy(UsageError), usage_error(HostError), contextlib.ExitStack() as stack:
        bundle = Bundle()
        stack.callback(bundle.remove)
        yield stack.enter_context(
            contextlib.closing(
                options.remote.make_transport(bundle) if options.remote else LocalTransport(bundle)
            )
        )


def run_session(
    collected_session: CollectedSession,
    specs: Sequence[CaseSpec],
    display: Display,
    run_cases: Callable[[CollectedSession, RunningSession], JudgedSession] | None = None,
) -> JudgedSession:
    """Run the selected cases `specs`, and judge them.

    If the worker that probes the devices dies or hangs twice, or if hosts have different devices or
    versions, every case fails.

    Args:
        collected_session: The options and the collected cases.
        specs: The selected cases.
        display: Shows the progress.
        run_cases: Measures the cases or does something else with them, and judges them; None means
            `measure_and_judge`.

    Raises:
        UsageError: Options, files or devices cannot be used, or the session reaches a limit of the
            operating system.

    """
    notes = list[str]()
    with open_transport(collected_session.options) as transport:
        session = RunningSession(
            specs=tuple(specs),
            executor=Executor(transport, notes.append),
            display=display,
        )
        try:
            judged_session = (run_cases or measure_and_judge)(collected_session, session)
        except HostLostError as error:
            judged_session = fail_all_cases(collected_session, specs, str(error))
        except IncomparableHostsError as error:
            judged_session = fail_all_cases(
                collected_session, specs, str(error), Outcome.INCOMPARABLE
            )
    return replace(judged_session, notes=tuple(notes))


def run_on_machine(
    collected_session: CollectedSession,
    session: RunningSession,
    run_resolved: Callable[[RunningSession, MeasuredSession], JudgedSession],
) -> JudgedSession:
    """Find the machine, resolve the cases and call `run_resolved`, all under the machine's lock.

    No other session measures on the machine or on the session's hosts in the meantime.
    `run_resolved` receives a MeasuredSession without measurements, and returns the JudgedSession.
    """
    wait_s, display, executor = (
        collected_session.options.device_wait,
        session.display,
        session.executor,
    )
    check_request(collected_session.options, session.specs)
    waiting = "another busbw session is measuring on this machine; waiting for its end"
    with lock_this_machine(wait_s, lambda holder: display.write_line(f"{waiting} ({holder})")):
        executor.transport.join(wait_s)
        executor.transport.lock(wait_s, display.write_line)
        # If two processes must share a single GPU, the options change.
        options, machine = find_machine(collected_session.options, session.specs, executor)
        collected_session = replace(collected_session, options=options)
        resolved_session = resolve_cases(
            collected_session, machine, session.specs, executor, display.write_line
        )
        display.write_header(resolved_session)
        return run_resolved(session, resolved_session)


def measure_and_judge(
    collected_session: CollectedSession, session: RunningSession
) -> JudgedSession:
    """Measure and judge the selected cases."""
    return run_on_machine(collected_session, session, _measure_resolved)


def _measure_resolved(session: RunningSession, resolved_session: MeasuredSession) -> JudgedSession:
    judged_session = judge_measured(
        measure_cases(resolved_session, session.executor, session.display)
    )
    for notes_of in extensions.load_functions("notes"):
        for note in notes_of(judged_session):
            session.executor.on_note(note)
    return judged_session


def accept_and_write(judged_session: JudgedSession) -> JudgedSession | None:
    """Write accepted baselines, the history and the requested files.

    Returns the JudgedSession with the notes and errors of writing; None, and nothing is written, if
    no case was measured.
    """
    observed = judged_session.observations
    if not isinstance(observed, MeasuredSession) or not observed.measurements:
        return None
    return write_outputs(accept_baselines(judged_session, accept_times), results_text)
