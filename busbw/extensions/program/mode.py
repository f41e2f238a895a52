"""Read the collectives of users' programs, and measure each collective by itself (`--program`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from busbw import storage, wire
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
from .worker_inventory import check_complete, collectives_in_hlo, is_scheduled, ranks_in_head
from .worker_values import (
    CONSECUTIVE,
    STRIDED,
    CollectiveUse,
    CollectiveUses,
    ProgramCollectives,
    ProgramError,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramCases:
    """The cases that measure the collectives of a user's program, each collective by itself.

    Attributes:
        name: The name of the program, such as ``train-step``.
        collectives_by_spec: Maps each case to the collective that the case measures. Its `times`
            counts all runs of such collectives in a step.
        notes: Sentences on the collectives that are measured with another dtype, or not at all.
        unmeasured_names: The names of the collectives that move data but are not measured, each
            with the number of its runs in a step.

    """

    name: str
    collectives_by_spec: Mapping[CaseSpec, CollectiveUse]
    notes: tuple[str, ...]
    unmeasured_names: tuple[str, ...] = ()

    def communication_text(self, verdicts: Mapping[CaseSpec, Verdict]) -> str:
        """Return a sentence on the total time of all measured collectives in a step.

        The median time of each collective is multiplied by the number of its runs in a step, and
        the products are added up. The sentence names the collective with the largest product, and
        the collectives that are not measured. If a case of the program has no time in `verdicts`,
        the sentence only says that the total is unknown.
        """
        name = f"communication of {self.name}"
        seconds = {
            spec: verdict.now.median_s * self.collectives_by_spec[spec].times
            for spec, verdict in verdicts.items()
            if spec in self.collectives_by_spec and verdict.now is not None
        }
        if len(seconds) < len(self.collectives_by_spec):
            missing = plural(len(self.collectives_by_spec) - len(seconds), "case")
            return f"{name}: unknown, {missing} without a time"
        total_s, longest = sum(seconds.values()), max(seconds, key=seconds.__getitem__)
        return (
            f"{name}: {seconds_text(total_s, 3)} a step: "
            f"{self.collectives_by_spec[longest].name} x {self.collectives_by_spec[longest].times} "
            f"is {seconds[longest] / total_s:.2f} of it; "
            f"each collective alone, with nothing that hides it"
            + (f"; left out: {', '.join(self.unmeasured_names)}" if self.unmeasured_names else "")
        )


def mode_of(options: Options) -> run.Mode | None:
    """Return the session mode that measures programs; None without --program.

    Raises UsageError if a program cannot be compiled or read, or has no collective to measure.
    """
    sources = program_sources(options)
    if not sources:
        return None
    programs = [cases_of_program(options, source) for source in sources]
    return replace(
        run.measuring_mode(options),
        select_specs=partial(_select_specs, programs),
        run_cases=partial(_measure_programs, programs),
    )


def _select_specs(programs: Sequence[ProgramCases], options: Options) -> tuple[CaseSpec, ...]:
    """Return the cases of all programs, each case once."""
    return tuple(
        dict.fromkeys(spec for program in programs for spec in program.collectives_by_spec)
    )


def _measure_programs(
    programs: Sequence[ProgramCases],
    collected_session: CollectedSession,
    executor: Executor,
    display: Display,
) -> JudgedSession:
    """Show the collectives of the programs, measure and judge them, and add up their times."""
    for program in programs:
        total = plural(sum(use.times for use in program.collectives_by_spec.values()), "collective")
        summary = f"{total} per step in {plural(len(program.collectives_by_spec), 'case')}"
        for text in (summary, *program.notes):
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
    collectives_by_spec = dict[CaseSpec, CollectiveUse]()
    notes = list[str]()
    unmeasured_names = list[str]()
    program = collectives_of_program(options, source)
    for use in program.uses:
        try:
            spec = spec_of_collective(
                use, program.mesh, framework=options.frameworks[0], clock=options.clock
            )
        except GridError as error:
            notes.append(f"not measured: {use.name}, {use.times_text}: {error}")
            unmeasured_names += [f"{use.name} x {use.times}"] if use.ranks != 1 else []
            continue
        times = (
            collectives_by_spec[spec].times + use.times
            if spec in collectives_by_spec
            else use.times
        )
        collectives_by_spec[spec] = replace(collectives_by_spec.get(spec, use), times=times)
        if spec.dtype != use.dtype:
            notes.append(f"measured: {use.name}: as {spec.dtype}, which moves the same bytes")
    if not collectives_by_spec:
        reasons = "; ".join(notes) or "it has no collective"
        raise UsageError(f"--program={source}: nothing of it can be measured: {reasons}")
    return ProgramCases(
        name=program_name(source),
        collectives_by_spec=collectives_by_spec,
        notes=tuple(dict.fromkeys(notes)),
        unmeasured_names=tuple(unmeasured_names),
    )


def collectives_of_program(options: Options, source: str) -> ProgramCollectives:
    """Return the collectives of the program `source`, read from its optimized HLO.

    `source` is a value of --program: a function such as ``train.py:step``, or a file of optimized
    HLO. Raises UsageError if the program cannot be compiled or read.
    """
    if not is_hlo_file(source):
        return _collectives_of_function(options, source)
    with as_usage_error(ProgramError, storage.InputError, where=f"{source}: "):
        return ProgramCollectives(uses=read_hlo_file(Path(source), options.ranks))


def _collectives_of_function(options: Options, source: str) -> ProgramCollectives:
    """Return the collectives of a program that a function makes, compiled by workers.

    The workers call the function `source` with the devices. Raises UsageError if the workers do not
    start, or if the program cannot be compiled or read.
    """
    framework = options.frameworks[0]
    worker_spec = machine.worker_spec_of(
        options, framework, Side.CANDIDATE, device=options.device, ranks=options.ranks
    )
    place, _, function = source.rpartition(":")
    # A worker on another host runs in another folder.
    path = str(Path(place).absolute()) if place.endswith(".py") else place
    request = Request("program", ProgramCollectives, {"source": f"{path}:{function}"})
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
    dtype = _dtype_to_measure(use, len(mesh))
    if use.axes in (CONSECUTIVE, STRIDED):
        extents = {"": use.groups, use.axes: use.ranks}
        mesh = extents if use.axes == CONSECUTIVE else dict(reversed(extents.items()))
    letters = dict(zip(mesh, LETTER_AXES))
    has_axes = bool(use.axes) and math.prod(mesh.values()) > use.ranks
    axes = "".join(letters[name] for name in use.axes.split(",") if has_axes)
    spec = CaseSpec(
        framework=framework,
        payload_bytes=use.payload_bytes,
        collective=use.kind,
        reduce_op=use.reduce_op or "none",
        placement=COLLECTIVES[use.kind].placements[0],
        axes=axes,
        dtype=dtype,
        ranks=use.ranks * use.groups,
        mesh="x".join(map(str, mesh.values())) if has_axes else "",
        clock=clock,
    )
    check_equal_blocks(spec, use.ranks * use.groups)
    return spec


def _dtype_to_measure(use: CollectiveUse, axis_count: int) -> str:
    """Return the name of the dtype with which to measure the collective `use`.

    A collective that only moves data is measured as float32 if busbw does not support its dtype.
    `axis_count` is the number of axes of the program's mesh. Raises GridError if busbw cannot
    measure the collective for any reason; the message is the reason.
    """
    collective = COLLECTIVES.get(use.kind)
    if collective is None:
        raise GridError("busbw has no such collective")
    # A collective that only moves data takes the same time with every dtype of the same bytes.
    dtype = use.dtype if use.dtype in DTYPES or collective.reduce_ops else "float32"
    reasons = {
        "its payload is not known": not use.payload_bytes,
        "a group of one rank moves nothing": use.ranks == 1,
        "how often it runs depends on data": use.per_iteration,
        f"expected a dtype of {', '.join(DTYPES)}, whose sums busbw can check": (
            dtype not in DTYPES
        ),
        f"its reduce op is none of {', '.join(REDUCE_OPS)}": (
            collective.reduce_ops and use.reduce_op not in REDUCE_OPS
        ),
        f"its mesh has more than {len(LETTER_AXES)} axes": axis_count > len(LETTER_AXES),
        "its groups are no axes of a mesh, or no rings along one": (
            not use.groups or (not use.axes and use.groups > 1)
        ),
    }
    for reason, is_true in reasons.items():
        if is_true:
            raise GridError(reason)
    return dtype


_GROUPS_OR_PAIRS_PATTERN = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}")
_RANK_PATTERN = re.compile(r"\d+")


def read_hlo_file(path: Path, ranks: int | None = None) -> CollectiveUses:
    """Return the collectives of a file of optimized HLO, which may be compressed with gzip.

    Args:
        path: The path of the file.
        ranks: The number of ranks that the user expects; None to read the number from the file.

    Returns:
        The collectives, the largest payload first.

    Raises:
        InputError: The file cannot be read.
        ProgramError: The file is not optimized HLO, is incomplete, contains several programs, or is
            compiled for another number of ranks.

    """
    # Editors on Windows write a byte order mark first, and end lines with two characters.
    content = storage.gunzip(storage.read(path))
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    conflict = wire.git_leftover_text(content)
    if conflict:
        raise ProgramError(f"line {conflict}")
    head = text.partition("\n")[0]
    if not head.startswith("HloModule ") or not is_scheduled(head):
        raise ProgramError(
            f"its first line is {head[:60]!r}; expected optimized HLO as text, with HloModule and "
            "is_scheduled=true, such as module_0000.NAME.cpu_after_optimizations.txt"
        )
    if "\nHloModule " in text:
        raise ProgramError("it has several programs; expected a file for each")
    uses = collectives_in_hlo(text, ranks=ranks)
    check_complete(text)
    grouped_ranks = max((use.ranks * use.groups for use in uses), default=0)
    stated_ranks = ranks_in_head(head)
    expected = ranks or stated_ranks
    # Permutes and groups of unequal sizes may leave ranks out, so that their ranks cannot be
    # counted. But the highest rank that they name exists.
    mentioned_ranks = (
        int(rank)
        for part in _GROUPS_OR_PAIRS_PATTERN.findall(text)
        for rank in _RANK_PATTERN.findall(part)
    )
    highest = max(mentioned_ranks, default=-1) + 1
    max_ranks = max(stated_ranks or grouped_ranks, grouped_ranks, highest)
    if expected and ((stated_ranks or grouped_ranks) not in (0, expected) or max_ranks > expected):
        place = "--ranks" if ranks else "the first line"
        raise ProgramError(
            f"it is compiled for {max_ranks} ranks, expected {expected} as in {place}"
        )
    return uses
