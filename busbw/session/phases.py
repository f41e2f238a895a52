"""The phases of a session: up to the verdicts, and what is written at the end.

They know no pytest: whoever runs a session hands in what was collected, and keeps each value as
soon as it exists. What cannot be written at the end is an error, and is told with the verdicts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import alone, transport_of
from busbw.driver.transport import HostError, HostLostError, IncomparableHostsError, Transport
from busbw.model.case import Spec
from busbw.model.words import Outcome

from . import (
    checks,
    judgement,
    measurement,
    repeat,
    resolution,
    sharing,
)
from .acceptance import accepted
from .display import Display
from .errors import UsageError, explain_limits, usage_error
from .outputs import with_outputs
from .state import Collected, Judged, Measured, Observed


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a session is run in: where it says what, and who keeps what was measured so far.

    `skip` names an option that asks to skip what was measured.
    """

    display: Display
    keep: Callable[[Observed], None] = lambda found: None
    skip: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What the phases of one session share."""

    specs: tuple[Spec, ...]
    transport: Transport
    executor: Executor
    within: Surroundings


def judged(
    collected: Collected,
    specs: Sequence[Spec],
    within: Surroundings,
    *,
    run: Callable[[Collected, Running], Judged] | None = None,
) -> Judged:
    """Run `specs`, the collected cases that are selected, and judge them.

    They are measured, or go to `run`. If the probe is cut short, or a host is lost in it, every
    case fails. Raises UsageError, also where the session reaches a limit of the operating system.
    """
    notes, given_up = list[str](), partial(judgement.given_up, collected, specs)

    def keep(found: Observed) -> None:
        within.keep(replace(found, notes=tuple(notes)))

    with contextlib.ExitStack() as held:
        held.enter_context(explain_limits(UsageError))
        held.enter_context(usage_error(HostError))
        bundle = Bundle()
        held.callback(bundle.remove)
        transport = transport_of(collected.settings.cluster, bundle)
        running = Running(
            specs=tuple(specs),
            transport=held.enter_context(contextlib.closing(transport)),
            executor=Executor(transport, notes.append),
            within=replace(within, keep=keep),
        )
        try:
            found = (run or measured)(collected, running)
        except HostLostError as error:
            found = given_up(str(error))
        except IncomparableHostsError as error:
            found = given_up(str(error), Outcome.INCOMPARABLE)
    return replace(found, notes=tuple(notes))


def measured(collected: Collected, running: Running) -> Judged:
    """Measure and judge the cases. Raises UsageError."""
    return on_machine(collected, running, _measured)


def on_machine(
    collected: Collected, running: Running, run: Callable[[Running, Measured], Judged]
) -> Judged:
    """Return what `run` makes of the resolved cases, while the session has the machine alone.

    Raises UsageError.
    """
    settings, executor, display = collected.settings, running.executor, running.within.display
    checks.check(settings, running.specs)
    checks.check_tpu(settings, running.specs, executor)
    waiting = "busbw session is measuring on this machine; waiting for its end"
    with alone(settings.device_wait_s, lambda who: display.line(f"another {waiting} ({who})")):
        running.transport.join(settings.device_wait_s)
        running.transport.lock(settings.device_wait_s, display.line)
        settings, there = sharing.opened(settings, running.specs, executor)
        collected = replace(collected, settings=settings)
        resolved = resolution.resolved(collected, there, running.specs, executor, display.line)
        display.header(resolved)
        return run(running, resolved)


def _measured(running: Running, resolved: Measured) -> Judged:
    executor, display = running.executor, running.within.display
    observed = measurement.measured(resolved, executor, display, running.within.keep)
    found = judgement.judged(observed, running.within.skip)
    slower = any(one.outcome is Outcome.REGRESSED for one in found.verdicts.values())
    if slower and resolved.environment.key.hosts > 1:
        executor.on_note(f"which host or link is slow: {repeat.find_slow_text(resolved.settings)}")
    return found


def written(found: Judged) -> Judged | None:
    """Return a session with what was accepted, in the history and in files of the options.

    None where nothing was measured, of which nothing is written.
    """
    if not isinstance(found.observed, Measured) or not found.observed.measurements:
        return None
    return with_outputs(accepted(found))
