"""With --program: the collectives of a user's own program, as cases, and what they come to.

A worker makes and compiles the program for the attached devices before tests are
collected. What of it cannot be measured alone is said and never dropped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import storage
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES, AbstractCollective
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import alone, transport_of
from busbw.driver.schedules import Side
from busbw.driver.transport import HostError, Request
from busbw.grid import check_blocks, is_dump, program_spec
from busbw.model.case import GridError, Spec
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import AXES
from busbw.model.program import CONSECUTIVE, STRIDED, ProgramCollectives, Use
from busbw.model.verdict import Verdict
from busbw.model.words import plural, seconds_text
from busbw.program.hlo import ProgramError

from . import dumps, machine
from .errors import UsageError, usage_error
from .settings import Settings
from .state import Weighted

# Payloads that differ by less are measured as one.
_ALIKE = 0.01
# The dtype of what moves data of another one.
_OF_MOVES = "float32"


def weighted(settings: Settings) -> tuple[Weighted, ...]:
    """Return the programs to measure. Raises UsageError."""
    return tuple(_weighted(settings, source) for source in settings.programs)


def _weighted(settings: Settings, source: str) -> Weighted:
    framework = settings.frameworks[0]
    is_text = is_dump(source)
    found = _read(settings, source) if is_text else _compiled(settings, framework, source)
    name = program_spec(framework, source).strategy
    times: dict[Spec, int] = {}
    called: dict[Spec, str] = {}
    left_out, replaced = list[str](), list[str]()
    for use in found.uses:
        try:
            spec = _alike(_spec(settings, framework, use, found.mesh), times)
        except GridError as error:
            left_out.append(f"{use.name}, {use.times_text(use.times)}: {error}")
            continue
        times[spec] = times.get(spec, 0) + use.times
        called.setdefault(spec, use.name)
        if spec.dtype != use.dtype:
            replaced.append(f"{use.name}: as {spec.dtype}, which moves the same bytes")
    if not times:
        why = "; ".join(left_out) or "it has no collective"
        raise UsageError(f"--program={source}: nothing of it can be measured: {why}")
    return Weighted(
        name=name,
        times=times,
        called=called,
        left_out=tuple(left_out),
        replaced=tuple(dict.fromkeys(replaced)),
    )


def _read(settings: Settings, source: str) -> ProgramCollectives:
    with usage_error(ProgramError, storage.InputError, where=f"--program={source}: "):
        return ProgramCollectives(uses=dumps.read(Path(source), settings.ranks))


def _compiled(settings: Settings, framework: str, source: str) -> ProgramCollectives:
    """Made and compiled by workers for the devices that are measured on."""
    starter = machine.starter_of(
        settings, framework, Side.CANDIDATE, device=settings.device, ranks=settings.ranks
    )
    place, _, function = source.rpartition(":")
    # Where the session was started is no folder of another host's.
    there = str(Path(place).absolute()) if place.endswith(".py") else place
    bundle = Bundle()
    request = Request("program", ProgramCollectives, {"source": f"{there}:{function}"})
    wait_s = settings.device_wait_s
    with contextlib.ExitStack() as within:
        within.callback(bundle.remove)
        within.enter_context(usage_error(HostError))
        transport = within.enter_context(contextlib.closing(transport_of(settings.cluster, bundle)))
        # A device has one user at a time.
        within.enter_context(alone(wait_s, lambda who: None))
        transport.join(wait_s)
        transport.lock(wait_s)
        executor = within.enter_context(Executor(transport))
        group = executor.open(starter, LaunchId(name="program"))
        answer = (
            group
            if isinstance(group, Failure)
            else group.ask(request, settings.case_timeout_s, "compiling")
        )
    if isinstance(answer, Failure):
        raise UsageError(f"--program={source}: {answer.kind.words}: {answer.message}")
    return answer


def _spec(settings: Settings, framework: str, use: Use, mesh: Mapping[str, int]) -> Spec:
    """Return the case of one collective alone. Raises GridError where there is none."""
    one, dtype = _measurable(use, mesh)
    axes = use.axes.split(",") if use.axes else []
    if use.axes == CONSECUTIVE:
        mesh = {"": use.groups, CONSECUTIVE: use.ranks}
    elif use.axes == STRIDED:
        mesh = {STRIDED: use.ranks, "": use.groups}
    letters = dict(zip(mesh, AXES))
    several = bool(axes) and math.prod(mesh.values()) > use.ranks
    spec = Spec(
        framework=framework,
        payload_bytes=use.payload_bytes,
        collective=use.kind,
        reduce_op=use.reduce_op or "none",
        placement=one.placements[0],
        axes="".join(letters[name] for name in axes) if several else "",
        dtype=dtype,
        ranks=use.ranks * use.groups,
        mesh="x".join(map(str, mesh.values())) if several else "",
        clock=settings.asked.clock,
    )
    check_blocks(spec, use.ranks * use.groups)
    return spec


def _measurable(use: Use, mesh: Mapping[str, int]) -> tuple[AbstractCollective, str]:
    """Return the collective, and the dtype to measure it with. Raises GridError for no case."""
    one = COLLECTIVES.get(use.kind)
    if one is None:
        raise GridError("busbw has no such collective")
    # What only moves data does so whatever they mean.
    dtype = use.dtype if use.dtype in DTYPES or one.reduce_ops else _OF_MOVES
    for is_wrong, why in (
        (not use.payload_bytes, "its payload is not known"),
        (use.ranks == 1, "a group of one rank moves nothing"),
        (use.per_iteration, "how often it runs depends on data"),
        (
            dtype not in DTYPES,
            f"expected a dtype of {', '.join(DTYPES)}: no other one's sums are checked",
        ),
        (
            one.reduce_ops and use.reduce_op not in REDUCE_OPS,
            f"its reduce op is none of {', '.join(REDUCE_OPS)}",
        ),
        (len(mesh) > len(AXES), f"its mesh has more than {len(AXES)} axes"),
        (
            not use.groups or (not use.axes and use.groups > 1),
            "its groups are no axes of a mesh, or no rings along one",
        ),
    ):
        if is_wrong:
            raise GridError(why)
    return one, dtype


def _alike(spec: Spec, there: Sequence[Spec] | Mapping[Spec, int]) -> Spec:
    """The case among those `there` that is but for a hundredth of its payload, or `spec` itself."""
    for one in there:
        same = replace(one, payload_bytes=spec.payload_bytes) == spec
        if same and abs(one.payload_bytes - spec.payload_bytes) <= _ALIKE * one.payload_bytes:
            return one
    return spec


def opening(programs: Sequence[Weighted]) -> Iterator[str]:
    """What is measured of each program, and what is not."""
    for one in programs:
        cases = plural(len(one.times), "case")
        yield f"{one.name}: {plural(sum(one.times.values()), 'collective')} per step in {cases}"
        for text in one.replaced:
            yield f"{one.name}: measured: {text}"
        for text in one.left_out:
            yield f"{one.name}: not measured: {text}"


def communication(programs: Sequence[Weighted], verdicts: Mapping[Spec, Verdict]) -> Iterator[str]:
    """What a step's collectives take together, each measured alone, and the largest share."""
    for one in programs:
        now = {spec: verdicts[spec].now for spec in one.times if spec in verdicts}
        parts_s = {spec: one.times[spec] * it.median_s for spec, it in now.items() if it}
        if len(parts_s) < len(one.times):
            missing = plural(len(one.times) - len(parts_s), "case")
            yield f"communication of {one.name}: unknown, {missing} without a time"
            continue
        total_s = sum(parts_s.values())
        stored = {spec: verdicts[spec].baseline for spec in parts_s}
        before_s = [one.times[spec] * it.median_s for spec, it in stored.items() if it]
        was = ""
        if len(before_s) == len(parts_s):
            change = 100 * (total_s / sum(before_s) - 1)
            was = f", was {seconds_text(sum(before_s), 3)} ({change:+.0f} %)"
        most = max(parts_s, key=lambda spec: parts_s[spec])
        yield (
            f"communication of {one.name}: {seconds_text(total_s, 3)} a step{was}: "
            f"{one.called[most]} x {one.times[most]} is {parts_s[most] / total_s:.2f} of it; "
            f"each collective alone, with nothing that hides it"
        )
