"""The phases of a session: up to the verdicts, and what is written at the end.

They know no pytest: whoever runs a session hands in what was collected, and keeps each value as
soon as it exists. What cannot be written at the end is an error, and is told with the verdicts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeCutShort, ProbesDiffer
from busbw.driver.local import BusyError, alone, transport_of
from busbw.driver.network import UnreachableError
from busbw.driver.transport import HostError, HostLostError, IncomparableHostsError, Transport
from busbw.model.case import Spec
from busbw.model.words import Outcome

from . import (
    checks,
    compilation,
    judgement,
    measurement,
    os_limits,
    programs,
    repeat,
    resolution,
    sharing,
    soaking,
)
from .acceptance import accepted
from .compilers import CompileSettings
from .display import Display
from .option import UsageError
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


def judged(collected: Collected, specs: Sequence[Spec], within: Surroundings) -> Judged:
    """Measure or compile `specs`, the collected ones that are selected, and judge what came of it.

    If the probe is cut short, or a host is lost in it, every case fails. Raises UsageError, also
    where the session reaches a limit of the operating system.
    """
    with os_limits.explained_as(UsageError):
        extensions = () if collected.settings.compile is None else ("compiled",)
        return _judged_in(Bundle(extensions), collected, specs, within)


def _judged_in(
    bundle: Bundle, collected: Collected, specs: Sequence[Spec], within: Surroundings
) -> Judged:
    notes = list[str]()

    def keep(found: Observed) -> None:
        within.keep(replace(found, notes=tuple(notes)))

    try:
        with contextlib.closing(transport_of(collected.settings.cluster, bundle)) as transport:
            found = _Session(
                specs=tuple(specs),
                transport=transport,
                executor=Executor(transport, notes.append),
                within=replace(within, keep=keep),
            ).judged(collected)
    finally:
        bundle.remove()
    return replace(found, notes=tuple(notes))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Session:
    """What the phases of one session share."""

    specs: tuple[Spec, ...]
    transport: Transport
    executor: Executor
    within: Surroundings

    def judged(self, collected: Collected) -> Judged:
        try:
            if collected.settings.compile is not None:
                return self._compiled(collected, collected.settings.compile)
            return self._measured(collected)
        except (ProbeCutShort, HostLostError) as error:
            return judgement.given_up(collected, self.specs, str(error))
        except (ProbesDiffer, IncomparableHostsError) as error:
            return judgement.given_up(collected, self.specs, str(error), Outcome.INCOMPARABLE)
        except (BusyError, HostError, UnreachableError) as error:
            raise UsageError(str(error)) from error

    def _measured(self, collected: Collected) -> Judged:
        settings, executor, say = collected.settings, self.executor, self.within.display.line
        checks.check(settings, self.specs)
        checks.check_tpu(settings, self.specs, executor)
        with alone(settings.device_wait_s, self._say_waiting):
            self.transport.join(settings.device_wait_s)
            self.transport.lock(settings.device_wait_s, say)
            settings, there = sharing.opened(settings, self.specs, executor)
            collected = replace(collected, settings=settings)
            resolved = resolution.resolved(collected, there, self.specs, executor, say)
            self.within.display.header(resolved)
            if settings.soak_s is not None:
                display, keep = self.within.display, self.within.keep
                return soaking.soaked(resolved, settings.soak_s, executor, display, keep)
            for text in programs.opening(collected.programs):
                say(f"busbw program: {text}")
            measured = measurement.measured(
                resolved, executor, self.within.display, self.within.keep
            )
        found = judgement.judged(measured, self.within.skip)
        for note in programs.communication(collected.programs, found.verdicts):
            executor.on_note(note)
        slower = any(one.outcome is Outcome.REGRESSED for one in found.verdicts.values())
        if slower and resolved.environment.key.hosts > 1:
            executor.on_note(f"which host or link is slow: {repeat.find_slow_text(settings)}")
        return found

    def _compiled(self, collected: Collected, asked: CompileSettings) -> Judged:
        settings = collected.settings
        parallel = compilation.parallel_of(settings, asked, self.executor, self.within.display)
        resolved = compilation.resolved(collected, asked, self.specs, parallel)
        self.within.display.compilers(tuple(resolved.compilers.values()))
        done = compilation.compiled(resolved, parallel, self.within.display, self.within.keep)
        return compilation.judged(done, self.within.skip)

    def _say_waiting(self, who: str) -> None:
        waiting = "busbw session is measuring on this machine; waiting for its end"
        self.within.display.line(f"another {waiting} ({who})")


def written(found: Judged) -> Judged | None:
    """With what was accepted, in the history and in the files that were asked for.

    None where nothing was measured, soaked or compiled, of which nothing is written.
    """
    observed = found.observed
    measured = isinstance(observed, Measured) and bool(observed.measurements)
    if (
        not measured
        and not found.settings.soak_s
        and not any(spec.topology for spec in found.verdicts)
    ):
        return None
    return with_outputs(accepted(found))
