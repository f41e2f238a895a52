"""The phases of a session: up to the verdicts, and what is written at the end.

They know no pytest: whoever runs a session hands in what was collected, and keeps each value as
soon as it exists. What cannot be written at the end is an error, and is told with the verdicts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeCutShort, ProbesDiffer
from busbw.driver.local import BusyError, alone
from busbw.driver.transport import AgentGone, AgentsError, IncomparableHosts, Transport
from busbw.judge.validity import injection_notes
from busbw.model.case import Spec
from busbw.model.words import Outcome

from . import checks, compilation, judgement, machine, measurement, resolution
from .acceptance import accepted
from .agents import transport_of
from .compilers import CompileSettings
from .display import Display
from .option import UsageError, usage_error
from .outputs import appended, with_metrics, with_page, with_results
from .state import Collected, Judged, Measured, Observed, Written


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a session is run in: where it says what, and who keeps what was measured so far.

    `secret` is the environment that may have that of agents. `skip` names an option that asks to
    skip what was measured.
    """

    display: Display
    keep: Callable[[Observed], None] = lambda found: None
    secret: MutableMapping[str, str] = field(default_factory=dict)
    skip: str = ""


def judged(collected: Collected, specs: Sequence[Spec], within: Surroundings) -> Judged:
    """Measure or compile `specs`, the collected ones that are selected, and judge what came of it.

    If the probe is cut short, or a host is lost in it, every case fails. Raises UsageError.
    """
    bundle = Bundle()
    try:
        with usage_error(OSError, where="--listen: "):
            transport = transport_of(
                collected.settings.agents, bundle, within.display.line, within.secret
            )
        with contextlib.closing(transport):
            return _Session(collected, bundle, transport, within).judged(tuple(specs))
    finally:
        bundle.remove()


class _Session:
    """The phases of one session, each value kept as soon as it exists."""

    def __init__(
        self,
        collected: Collected,
        bundle: Bundle,
        transport: Transport,
        within: Surroundings,
    ) -> None:
        self._collected = collected
        self._folder = bundle.path
        self._notes: list[str] = []
        self._executor = Executor(transport, self._notes.append)
        self._transport = transport
        self._within = within
        self._display = within.display

    def judged(self, specs: tuple[Spec, ...]) -> Judged:
        settings = self._collected.settings
        try:
            if settings.compile is not None:
                found = self._compiled(settings.compile, specs)
            else:
                collected = checks.checked(self._collected, specs)
                checks.check_tpu(settings, specs, self._executor)
                with alone(settings.device_wait_s, self._say_waiting):
                    measured = self._measured(collected, specs)
                found = judgement.judged(measured, self._within.skip)
        except (ProbeCutShort, AgentGone) as error:
            found = judgement.given_up(self._collected, specs, str(error))
        except (ProbesDiffer, IncomparableHosts) as error:
            found = judgement.given_up(
                self._collected, specs, str(error), outcome=Outcome.INCOMPARABLE
            )
        except (BusyError, AgentsError) as error:
            raise UsageError(str(error)) from error
        return replace(found, notes=tuple(self._notes))

    def _measured(self, collected: Collected, specs: tuple[Spec, ...]) -> Measured:
        executor, transport = self._executor, self._transport
        agents = collected.settings.agents
        transport.join(agents.wait_s if agents is not None else 0.0)
        transport.lock(collected.settings.device_wait_s, self._display.line)
        found = machine.machine_of(collected.settings, specs, executor)
        resolved = resolution.resolved(
            collected, found, specs, executor, self._folder, self._display.line
        )
        self._notes += resolved.notes
        self._display.header(resolved)
        measured = measurement.measured(resolved, executor, self._display, self._keep)
        self._notes += [*measured.notes, *injection_notes(measured.measurements)]
        return measured

    def _compiled(self, asked: CompileSettings, specs: tuple[Spec, ...]) -> Judged:
        settings = self._collected.settings
        parallel = compilation.parallel_of(settings, asked, self._executor, self._display)
        resolved = compilation.resolved(self._collected, asked, specs, parallel)
        self._display.compilers(tuple(resolved.compilers.values()))
        programs = compilation.compiled(resolved, parallel, self._display, self._keep)
        return compilation.judged(programs, self._within.skip)

    def _say_waiting(self, who: str) -> None:
        waiting = "busbw session is measuring on this machine; waiting for its end"
        self._display.line(f"another {waiting} ({who})")

    def _keep(self, found: Observed) -> None:
        self._within.keep(replace(found, notes=(*self._notes, *found.notes)))


def written(found: Judged) -> Written | None:
    """With what was accepted, in the history and in the files that were asked for.

    None where nothing was measured or compiled, of which nothing is written.
    """
    measured = isinstance(found.observed, Measured) and bool(found.observed.measurements)
    if not measured and not any(spec.topology for spec in found.verdicts):
        return None
    return with_page(appended(with_metrics(with_results(accepted(found)))))
