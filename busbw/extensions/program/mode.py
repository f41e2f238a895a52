"""Measuring the collectives of programs, as a mode of sessions."""

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
from .cases import spec_of
from .options import is_dump, name_of, sources_of
from .worker_values import ProgramCollectives, ProgramError


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCases:
    """A program: how often a step runs each of its cases, and what each case is called.

    `notes` name the collectives that are measured with another dtype, or not at all; `left_out`
    are those that are not measured, though they move data.
    """

    name: str
    times: Mapping[Spec, int]
    labels: Mapping[Spec, str]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def opening(self) -> Iterator[str]:
        """Yield what is measured of the program, and what is not."""
        total = plural(sum(self.times.values()), "collective")
        yield f"{self.name}: {total} per step in {plural(len(self.times), 'case')}"
        yield from (f"{self.name}: {note}" for note in self.notes)

    def communication(self, verdicts: Mapping[Spec, Verdict]) -> str:
        """Return what a step's collectives take together, each measured alone."""
        name = f"communication of {self.name}"
        now_s, before_s = (self._seconds(verdicts, side) for side in ("now", "baseline"))
        if len(now_s) < len(self.times):
            missing = plural(len(self.times) - len(now_s), "case")
            return f"{name}: unknown, {missing} without a time"
        total_s, most, was = sum(now_s.values()), max(now_s, key=now_s.__getitem__), ""
        if len(before_s) == len(now_s):
            change = 100 * (total_s / sum(before_s.values()) - 1)
            was = f", was {seconds_text(sum(before_s.values()), 3)} ({change:+.0f} %)"
        return (
            f"{name}: {seconds_text(total_s, 3)} a step{was}: "
            f"{self.labels[most]} x {self.times[most]} is {now_s[most] / total_s:.2f} of it; "
            f"each collective alone, with nothing that hides it"
            + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")
        )

    def _seconds(self, verdicts: Mapping[Spec, Verdict], side: str) -> dict[Spec, float]:
        """Return what a step's runs of each case took ``now``, or took in its ``baseline``."""
        summaries = {spec: getattr(verdicts.get(spec), side, None) for spec in self.times}
        return {spec: self.times[spec] * s.median_s for spec, s in summaries.items() if s}


def mode_of(options: Options) -> mode.Mode | None:
    """Return the mode that measures programs, with --program. Raises UsageError."""
    sources = sources_of(options)
    if not sources:
        return None
    with usage_error(GridError):
        mode.grid_options_of(options)
    programs = [cases_of(options, source) for source in sources]
    return replace(
        mode.measuring_mode(options),
        add_specs=partial(_add_specs, programs),
        header=partial(_header, sources),
        run_cases=partial(run.run_session, run_cases=partial(_run, programs)),
    )


def _add_specs(
    programs: Sequence[ProgramCases], collected: Collected
) -> tuple[Collected, tuple[Spec, ...]]:
    specs = tuple(dict.fromkeys(spec for program in programs for spec in program.times))
    return replace(collected, grid=tuple(dict.fromkeys((*collected.grid, *specs)))), specs


def _header(sources: Sequence[str], options: Options) -> str:
    launches = plural(options.launches, "launch")
    return f"busbw: {options.frameworks[0]}, {', '.join(sources)}, {launches}"


def _run(
    programs: Sequence[ProgramCases], collected: Collected, session: run.RunningSession
) -> Judged:
    for program in programs:
        for text in program.opening():
            session.display.write_line(f"busbw program: {text}")
    judged = run.measure_and_judge(collected, session)
    for program in programs:
        session.executor.on_note(program.communication(judged.verdicts))
    return judged


def cases_of(options: Options, source: str) -> ProgramCases:
    """Return the cases of a program. Raises UsageError."""
    framework, times = options.frameworks[0], dict[Spec, int]()
    labels, notes, left_out = dict[Spec, str](), list[str](), list[str]()
    program = program_of(options, source)
    for use in program.uses:
        try:
            spec = spec_of(use, program.mesh, framework=framework, clock=options.clock)
        except GridError as error:
            notes.append(f"not measured: {use.name}, {use.times_text(use.times)}: {error}")
            left_out += [f"{use.name} x {use.times}"] if use.ranks != 1 else []
            continue
        times[spec] = times.get(spec, 0) + use.times
        labels.setdefault(spec, use.name)
        if spec.dtype != use.dtype:
            notes.append(f"measured: {use.name}: as {spec.dtype}, which moves the same bytes")
    if not times:
        reasons = "; ".join(notes) or "it has no collective"
        raise UsageError(f"--program={source}: nothing of it can be measured: {reasons}")
    return ProgramCases(
        name=name_of(source),
        times=times,
        labels=labels,
        notes=tuple(dict.fromkeys(notes)),
        left_out=tuple(left_out),
    )


def program_of(options: Options, source: str) -> ProgramCollectives:
    """Return the collectives of a function or of a file of HLO. Raises UsageError."""
    if not is_dump(source):
        return _compiled(options, source)
    with usage_error(ProgramError, storage.InputError, where=f"{source}: "):
        return ProgramCollectives(uses=dumps.read(Path(source), options.ranks))


def _compiled(options: Options, source: str) -> ProgramCollectives:
    """Let workers make and compile a program for the devices that are measured on."""
    framework = options.frameworks[0]
    starter = machine.starter_of(
        options, framework, Side.CANDIDATE, device=options.device, ranks=options.ranks
    )
    place, _, function = source.rpartition(":")
    # The folder that the session was started in is no folder of another host's worker.
    path = str(Path(place).absolute()) if place.endswith(".py") else place
    request = Request("program", ProgramCollectives, {"source": f"{path}:{function}"})
    with contextlib.ExitStack() as held:
        held.enter_context(usage_error(HostError))
        bundle = Bundle()
        held.callback(bundle.remove)
        transport = held.enter_context(contextlib.closing(transport_for(options.remote, bundle)))
        # A device has one user at a time.
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
