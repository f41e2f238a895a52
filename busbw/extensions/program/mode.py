"""Measure the collectives of programs, as a mode of sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from busbw import storage
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import lock_this_machine, transport_for
from busbw.driver.schedules import Side
from busbw.driver.transport import HostError, Request
from busbw.model.case import GridError, Spec
from busbw.model.launch import Failure, LaunchId
from busbw.model.verdict import Verdict
from busbw.model.words import plural, seconds_text
from busbw.session import machine, mode, run
from busbw.session.errors import UsageError, usage_error
from busbw.session.options import Options
from busbw.session.state import Collected, Judged

from . import dumps
from .cases import spec_of_collective
from .options import is_hlo_file, program_name, program_sources
from .worker_values import ProgramCollectives, ProgramError


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCases:
    """The cases that measure the collectives of a program, each collective by itself.

    `times_per_step` says how often a step of the program runs each case. `collective_names` has for
    each case its collective in words. `notes` are lines on the collectives that are measured with
    another dtype, or not at all. `unmeasured` are the names of the collectives that move data but
    are not measured.
    """

    name: str
    times_per_step: Mapping[Spec, int]
    collective_names: Mapping[Spec, str]
    notes: tuple[str, ...]
    unmeasured: tuple[str, ...] = ()

    def header_lines(self) -> Iterator[str]:
        """Yield the number of collectives and cases of the program, and then the notes."""
        total = plural(sum(self.times_per_step.values()), "collective")
        yield f"{self.name}: {total} per step in {plural(len(self.times_per_step), 'case')}"
        yield from (f"{self.name}: {note}" for note in self.notes)

    def communication_text(self, verdicts: Mapping[Spec, Verdict]) -> str:
        """Return how long the collectives of a step take together, each measured by itself.

        The text names the case that takes the largest part. If all cases have baselines, the text
        also has the sum of the baselines, and the change since then.
        """
        name = f"communication of {self.name}"
        now_s, before_s = (self._seconds_per_step(verdicts, side) for side in ("now", "baseline"))
        if len(now_s) < len(self.times_per_step):
            missing = plural(len(self.times_per_step) - len(now_s), "case")
            return f"{name}: unknown, {missing} without a time"
        total_s, most, was = sum(now_s.values()), max(now_s, key=now_s.__getitem__), ""
        if len(before_s) == len(now_s):
            change = 100 * (total_s / sum(before_s.values()) - 1)
            was = f", was {seconds_text(sum(before_s.values()), 3)} ({change:+.0f} %)"
        return (
            f"{name}: {seconds_text(total_s, 3)} a step{was}: "
            f"{self.collective_names[most]} x {self.times_per_step[most]} is "
            f"{now_s[most] / total_s:.2f} of it; "
            f"each collective alone, with nothing that hides it"
            + (f"; left out: {', '.join(self.unmeasured)}" if self.unmeasured else "")
        )

    def _seconds_per_step(self, verdicts: Mapping[Spec, Verdict], side: str) -> dict[Spec, float]:
        """Return how long all runs of a case in a step take together, for each case with a time.

        `side` is ``now`` for the times of this session, or ``baseline``.
        """
        summaries = {spec: getattr(verdicts.get(spec), side, None) for spec in self.times_per_step}
        return {spec: self.times_per_step[spec] * s.median_s for spec, s in summaries.items() if s}


def mode_of(options: Options) -> mode.Mode | None:
    """Return the session mode that measures programs; None without --program.

    Raises UsageError if a program cannot be compiled or read, or has no collective to measure.
    """
    sources = program_sources(options)
    if not sources:
        return None
    with usage_error(GridError):
        mode.grid_options_of(options)
    programs = [cases_of_program(options, source) for source in sources]
    return replace(
        mode.measuring_mode(options),
        add_specs=partial(_add_specs, programs),
        header=partial(_header_text, sources),
        run_cases=partial(run.run_session, run_cases=partial(_measure_programs, programs)),
    )


def _add_specs(
    programs: Sequence[ProgramCases], collected: Collected
) -> tuple[Collected, tuple[Spec, ...]]:
    specs = tuple(dict.fromkeys(spec for program in programs for spec in program.times_per_step))
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *specs)))), specs


def _header_text(sources: Sequence[str], options: Options) -> str:
    launches = options.launches_text
    return f"busbw: {options.frameworks[0]}, {', '.join(sources)}, {launches}"


def _measure_programs(
    programs: Sequence[ProgramCases], collected: Collected, session: run.RunningSession
) -> Judged:
    for program in programs:
        for text in program.header_lines():
            session.display.write_line(f"busbw program: {text}")
    judged = run.measure_and_judge(collected, session)
    for program in programs:
        session.executor.on_note(program.communication_text(judged.verdicts))
    return judged


def cases_of_program(options: Options, source: str) -> ProgramCases:
    """Return the cases of the program `source`, a function or a file of HLO.

    Raises UsageError if the program cannot be compiled or read, or has no collective to measure.
    """
    framework, times_per_step = options.frameworks[0], dict[Spec, int]()
    collective_names, notes, unmeasured = dict[Spec, str](), list[str](), list[str]()
    program = collectives_of_program(options, source)
    for use in program.uses:
        try:
            spec = spec_of_collective(use, program.mesh, framework=framework, clock=options.clock)
        except GridError as error:
            notes.append(f"not measured: {use.name}, {use.times_text(use.times)}: {error}")
            unmeasured += [f"{use.name} x {use.times}"] if use.ranks != 1 else []
            continue
        times_per_step[spec] = times_per_step.get(spec, 0) + use.times
        collective_names.setdefault(spec, use.name)
        if spec.dtype != use.dtype:
            notes.append(f"measured: {use.name}: as {spec.dtype}, which moves the same bytes")
    if not times_per_step:
        reasons = "; ".join(notes) or "it has no collective"
        raise UsageError(f"--program={source}: nothing of it can be measured: {reasons}")
    return ProgramCases(
        name=program_name(source),
        times_per_step=times_per_step,
        collective_names=collective_names,
        notes=tuple(dict.fromkeys(notes)),
        unmeasured=tuple(unmeasured),
    )


def collectives_of_program(options: Options, source: str) -> ProgramCollectives:
    """Return the collectives of the program `source`, a function or a file of HLO.

    Raises UsageError if the program cannot be compiled or read.
    """
    if not is_hlo_file(source):
        return _collectives_of_function(options, source)
    with usage_error(ProgramError, storage.InputError, where=f"{source}: "):
        return ProgramCollectives(uses=dumps.read_hlo_file(Path(source), options.ranks))


def _collectives_of_function(options: Options, source: str) -> ProgramCollectives:
    """Let workers call a function, compile its program for the devices, and list its collectives.

    Raises UsageError if the workers do not start, or if the program cannot be compiled or read.
    """
    framework = options.frameworks[0]
    starter = machine.starter_of(
        options, framework, Side.CANDIDATE, device=options.device, ranks=options.ranks
    )
    place, _, function = source.rpartition(":")
    # A worker on another host runs in another folder.
    path = str(Path(place).absolute()) if place.endswith(".py") else place
    request = Request("program", ProgramCollectives, {"source": f"{path}:{function}"})
    with contextlib.ExitStack() as held:
        held.enter_context(usage_error(HostError))
        bundle = Bundle()
        held.callback(bundle.remove)
        transport = held.enter_context(contextlib.closing(transport_for(options.remote, bundle)))
        # A device is used by a single session at a time.
        held.enter_context(lock_this_machine(options.device_wait))
        transport.join(options.device_wait)
        transport.lock(options.device_wait)
        group = held.enter_context(Executor(transport)).open_group(
            starter, LaunchId(name="program")
        )
        answer = (
            group
            if isinstance(group, Failure)
            else group.ask(request, options.case_timeout, "compiling")
        )
    if isinstance(answer, Failure):
        raise UsageError(f"--program={source}: {answer.kind.text}: {answer.message}")
    return answer
