"""The steps of a session, without pytest: from collected cases to verdicts, and to files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from busbw import extensions
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import alone, transport_of
from busbw.driver.transport import HostError, HostLostError, IncomparableHostsError, Transport
from busbw.model.case import Spec
from busbw.model.words import Outcome

from .accept import accept, accept_times
from .errors import UsageError, explain_limits, usage_error
from .judge import give_up, judge
from .machine import check_before_lock, find_machine
from .measure import measure
from .progress import Display
from .record import results_text, write_outputs
from .resolve import resolve
from .state import Collected, Judged, Measured, Observed


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What the steps of a session share.

    `keep` takes what was measured so far. `skip` names an option that requests to skip benchmarks.
    """

    specs: tuple[Spec, ...]
    transport: Transport
    executor: Executor
    display: Display
    keep: Callable[[Observed], None]
    skip: str


def run_session(
    collected: Collected,
    specs: Sequence[Spec],
    display: Display,
    *,
    keep: Callable[[Observed], None] = lambda observed: None,
    skip: str = "",
    run: Callable[[Collected, Session], Judged] | None = None,
) -> Judged:
    """Run the selected cases `specs`, and judge them.

    If the probe is cut short, or a host is lost in it, every case fails. Raises UsageError, also if
    the session reaches a limit of the operating system.

    Args:
        collected: The options and the grid.
        specs: The cases that are selected.
        display: Where progress is shown.
        keep: Takes what was observed so far, with notes.
        skip: An option that requests to skip benchmarks.
        run: Measures or does something else, and judges; by default `measure_and_judge`.

    """
    notes = list[str]()
    with contextlib.ExitStack() as stack:
        stack.enter_context(explain_limits(UsageError))
        stack.enter_context(usage_error(HostError))
        bundle = Bundle()
        stack.callback(bundle.remove)
        transport = transport_of(collected.options.remote, bundle)
        session = Session(
            specs=tuple(specs),
            transport=stack.enter_context(contextlib.closing(transport)),
            executor=Executor(transport, notes.append),
            display=display,
            keep=lambda observed: keep(replace(observed, notes=tuple(notes))),
            skip=skip,
        )
        try:
            judged = (run or measure_and_judge)(collected, session)
        except HostLostError as error:
            judged = give_up(collected, specs, str(error))
        except IncomparableHostsError as error:
            judged = give_up(collected, specs, str(error), Outcome.INCOMPARABLE)
    return replace(judged, notes=tuple(notes))


def on_machine(
    collected: Collected, session: Session, act: Callable[[Session, Measured], Judged]
) -> Judged:
    """Let `act` measure the resolved cases while no other session measures on the machine."""
    wait_s, display, executor = collected.options.device_wait, session.display, session.executor

    def report(holder: str) -> None:
        waiting = "another busbw session is measuring on this machine; waiting for its end"
        display.line(f"{waiting} ({holder})")

    check_before_lock(collected.options, session.specs, executor)
    with alone(wait_s, report):
        session.transport.join(wait_s)
        session.transport.lock(wait_s, display.line)
        options, machine = find_machine(collected.options, session.specs, executor)
        collected = replace(collected, options=options)
        resolved = resolve(collected, machine, session.specs, executor, display.line)
        display.header(resolved)
        return act(session, resolved)


def measure_and_judge(collected: Collected, session: Session) -> Judged:
    """Measure and judge the selected cases."""
    return on_machine(collected, session, _measure)


def _measure(session: Session, resolved: Measured) -> Judged:
    measured = measure(resolved, session.executor, session.display, session.keep)
    judged = judge(measured, session.skip)
    for notes_of in extensions.hooks("notes"):
        for note in notes_of(judged):
            session.executor.on_note(note)
    return judged


def write(judged: Judged) -> Judged | None:
    """Write what was accepted, the history and the requested files; None without a measurement."""
    observed = judged.observed
    if not isinstance(observed, Measured) or not observed.measurements:
        return None
    return write_outputs(accept(judged, accept_times), results_text)
