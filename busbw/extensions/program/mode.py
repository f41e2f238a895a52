"""Read the collectives of users' programs, and measure each collective by itself (`--program`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from busbw import storage
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.driver.executor import Executor
from busbw.driver.local import lock_this_machine
from busbw.driver.schedules import Side
from busbw.driver.transport import Request
from busbw.grid import check_equal_blocks
from busbw.model.case import CaseSpec, GridError
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import LETTER_AXES
from busbw.model.verdict import Verdict
from busbw.model.words import plural, seconds_text
from busbw.session import machine, run
from busbw.session.measure import Display
from busbw.session.option import UsageError, as_usage_error
from busbw.session.options import Options
from busbw.session.state import CollectedSession, JudgedSession

from .options import is_hlo_file, program_name, program_sources
from .worker import collectives_in_hlo
from .worker_values import (
    CONSECUTIVE,
    STRIDED,
    CollectiveUse,
    ProgramCollectives,
    ProgramError,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCases:
    """The cases that measure the collectives of a user's program, each collective by itself.

    Attributes:
        name: The name of the program, such as ``train-step``.
        uses_by_spec: Maps each case to the collectives whose time the case measures.
        omissions: Maps each collective that cannot be measured to a sentence with the reason.

    """

    name: str
    uses_by_spec: Mapping[CaseSpec, Sequence[CollectiveUse]]
    omissions: Mapping[CollectiveUse, str]

    def runs_per_step(self, spec: CaseSpec) -> int:
        """Return how often a step of the program runs the collectives that `spec` measures."""
        return sum(use.times for use in self.uses_by_spec[spec])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user.

        The first note counts the collectives. Further notes name each collective that is not
        measured, or is measured with another dtype.
        """
        runs = plural(sum(map(self.runs_per_step, self.uses_by_spec)), "collective")
        converted = [
            f"measured: {use.name}: as {spec.dtype}, which moves the same bytes"
            for spec, uses in self.uses_by_spec.items()
            for use in uses
            if use.dtype != spec.dtype
        ]
        return (
            f"{runs} per step in {plural(len(self.uses_by_spec), 'case')}",
            *dict.fromkeys((*self.omissions.values(), *converted)),
        )

    def communication_text(self, verdicts: Mapping[CaseSpec, Verdict]) -> str:
        """Return a sentence on the total time of all measured collectives in a step.

        The total is the sum of (median time of a collective) x (runs of the collective in a step).
        The sentence also names the collective with the largest product, and the collectives that
        are not measured. If a case of the program has no time in `verdicts`, the sentence only says
        that the total is unknown.
        """
        seconds = {
            spec: verdict.now.median_s * self.runs_per_step(spec)
            for spec, verdict in verdicts.items()
            if spec in self.uses_by_spec and verdict.now is not None
        }
        if len(seconds) < len(self.uses_by_spec):
            return f"communication of {self.name}: unknown, because a case has no time"
        total_s = sum(seconds.values())
        longest = max(seconds, key=seconds.__getitem__)
        # A group of a single rank moves nothing.
        omitted = [f"{use.name}, {use.times_text}" for use in self.omissions if use.ranks != 1]
        return (
            f"communication of {self.name}: {seconds_text(total_s, 3)} a step: "
            f"{self.uses_by_spec[longest][0].name} x {self.runs_per_step(longest)} "
            f"is {seconds[longest] / total_s:.2f} of it; "
            f"each collective alone, with nothing that hides it"
            + (f"; left out: {', '.join(omitted)}" if omitted else "")
        )


def requested_mode(options: Options) -> run.Mode | None:
    """Return the session mode that measures programs; None without --program.

    Raises UsageError if a program cannot be compiled or read, or has no collective to measure.
    """
    programs = [cases_of_program(options, source) for source in program_sources(options)]
    if not programs:
        return None
    specs = tuple(dict.fromkeys(spec for program in programs for spec in program.uses_by_spec))
    return replace(
        run.measuring_mode(options),
        select_specs=lambda _: specs,
        run_cases=partial(_measure_programs, programs),
    )


def _measure_programs(
    programs: Sequence[ProgramCases],
    collected_session: CollectedSession,
    executor: Executor,
    display: Display,
) -> JudgedSession:
    """Measure and judge the collectives of `programs`, and return the judged session.

    The notes on each program are shown first, and a sentence on its total time last.
    """
    for program in programs:
        for text in program.notes:
            display.write_line(f"busbw program: {program.name}: {text}")
    judged_session = run.measure_and_judge(collected_session, executor, display)
    for program in programs:
        executor.on_note(program.communication_text(judged_session.verdicts))
    return judged_session


def cases_of_program(options: Options, source: str) -> ProgramCases:
    """Return the cases that measure the collectives of the program `source`.

    `source` is a value of --program: a function such as ``train.py:step``, or a file of optimized
    HLO. Raises UsageError if the program cannot be compiled or read, or has no collective to
    measure.
    """
    program = collectives_of_program(options, source)
    uses_by_spec: dict[CaseSpec, list[CollectiveUse]] = {}
    omissions: dict[CollectiveUse, str] = {}
    for use in program.uses:
        try:
            spec = spec_of_collective(
                use, program.mesh, framework=options.frameworks[0], clock=options.clock
            )
            uses_by_spec.setdefault(spec, []).append(use)
        except GridError as error:
            omissions[use] = f"not measured: {use.name}, {use.times_text}: {error}"
    if not uses_by_spec:
        reasons = "; ".join(omissions.values()) or "it has no collective"
        raise UsageError(f"--program={source}: nothing of it can be measured: {reasons}")
    return ProgramCases(name=program_name(source), uses_by_spec=uses_by_spec, omissions=omissions)


def collectives_of_program(options: Options, source: str) -> ProgramCollectives:
    """Return the collectives and arguments of the program `source`, read from its optimized HLO.

    `source` is a value of --program: a function such as ``train.py:step``, which workers call with
    their devices and compile, or a file of optimized HLO. Raises UsageError if the workers do not
    start, or if the program cannot be compiled or read.
    """
    if is_hlo_file(source):
        with as_usage_error(ProgramError, storage.InputError, where=f"{source}: "):
            return read_hlo_file(Path(source), options.ranks)
    worker_spec = machine.worker_spec_of(
        options, options.frameworks[0], Side.CANDIDATE, device=options.device, ranks=options.ranks
    )
    # A worker on another host runs in another folder.
    function = str(Path(source).absolute()) if ".py:" in source else source
    request = Request("program", ProgramCollectives, {"source": function})
    # A device is used by a single session at a time.
    with (
        run.open_transport(options) as transport,
        lock_this_machine(options.device_wait),
        Executor(transport) as executor,
    ):
        transport.connect_hosts(options.device_wait)
        transport.lock(options.device_wait)
        group = executor.open_group(worker_spec, LaunchId(name="program"))
        answer = (
            group
            if isinstance(group, Failure)
            else group.ask(request, options.case_timeout, "compiling")
        )
    if isinstance(answer, Failure):
        raise UsageError(f"--program={source}: {answer.kind.text}: {answer.message}")
    return answer


def spec_of_collective(
    use: CollectiveUse, mesh: Mapping[str, int], *, framework: str, clock: str
) -> CaseSpec:
    """Return the CaseSpec that measures the collective `use` by itself.

    `mesh` maps the axis names of the program's mesh to their extents. Raises GridError, with the
    reason as its message, if busbw cannot measure the collective.
    """
    reduce_ops = COLLECTIVES[use.kind].reduce_ops if use.kind in COLLECTIVES else ()
    # A collective that only moves data takes the same time with every dtype of the same bytes.
    dtype = use.dtype if use.dtype in DTYPES or reduce_ops else "float32"
    reasons = {
        "busbw has no such collective": use.kind not in COLLECTIVES,
        "its payload is not known": not use.payload_bytes,
        "a group of one rank moves nothing": use.ranks == 1,
        "how often it runs depends on data": use.per_iteration,
        f"expected a dtype of {', '.join(DTYPES)}, whose sums busbw can check": (
            dtype not in DTYPES
        ),
        f"its reduce op is none of {', '.join(REDUCE_OPS)}": (
            reduce_ops and use.reduce_op not in REDUCE_OPS
        ),
        "its groups are no axes of a mesh, or no rings along one": (
            not use.groups or (not use.axes and use.groups > 1)
        ),
    }
    for reason, is_true in reasons.items():
        if is_true:
            raise GridError(reason)
    meshes_by_layout = {
        CONSECUTIVE: {"": use.groups, CONSECUTIVE: use.ranks},
        STRIDED: {STRIDED: use.ranks, "": use.groups},
    }
    mesh = meshes_by_layout.get(use.axes, mesh) if use.groups > 1 else {}
    spec = CaseSpec(
        framework=framework,
        payload_bytes=use.payload_bytes,
        collective=use.kind,
        reduce_op=use.reduce_op or "none",
        placement=COLLECTIVES[use.kind].placements[0],
        axes="".join(
            letter for axis, letter in zip(mesh, LETTER_AXES) if axis in use.axes.split(",")
        ),
        dtype=dtype,
        ranks=use.ranks * use.groups,
        mesh="x".join(map(str, mesh.values())),
        clock=clock,
    )
    check_equal_blocks(spec, use.ranks * use.groups)
    return spec


def read_hlo_file(path: Path, ranks: int | None = None) -> ProgramCollectives:
    """Return the collectives and arguments of a file of optimized HLO, which gzip may compress.

    Args:
        path: The path of the file.
        ranks: The number of ranks that the user expects; None to read the number from the file.

    Returns:
        The collectives, the largest payload first, and the arguments.

    Raises:
        InputError: The file cannot be read.
        ProgramError: The file is no optimized HLO of a single program, it is damaged, or it is not
            for `ranks` ranks.

    """
    text = storage.gunzip(storage.read(path)).decode(errors="replace")
    head = text.partition("\n")[0]
    # The compiler writes whether instructions are scheduled before any text of the user.
    is_scheduled = "is_scheduled=true" in head.partition('"')[0]
    if not head.startswith("HloModule ") or not is_scheduled or "\nHloModule " in text:
        raise ProgramError(
            f"its first line is {head[:60]!r}; expected optimized HLO of a single program as text, "
            "with HloModule and is_scheduled=true, such as "
            "module_0000.NAME.cpu_after_optimizations.txt"
        )
    program = collectives_in_hlo(text, ranks=ranks)
    rank_counts = {use.ranks * use.groups for use in program.uses} - {0}
    if ranks and rank_counts - {ranks}:
        raise ProgramError(f"it is compiled for {max(rank_counts)} ranks, expected {ranks}")
    return program
