"""Every collective that XLA's compilers make of our programs is one that a recording is read for.

A recording holds the names of these instructions. A compiler that gives others would leave
`--clock=device` without a time, and turns this red before a night does. `tox -e exhaustive`
compiles a few programs, with BUSBW_PROGRAMS=all those of every topology.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from busbw.hardware.topologies import USUAL_TOPOLOGIES
from busbw.program import hlo
from busbw.traces.event import Event
from busbw.traces.recognition import Phase, Recognized, Recognizer, parse_name
from tests.helpers import frameworks as real

pytestmark = [real.needs("jax"), real.needs("libtpu"), pytest.mark.exhaustive]

IS_ALL = os.environ.get("BUSBW_PROGRAMS") == "all"
FEW = ("v2:2x2", "v5e:2x4", "tpu7x:2x2x1", "h100:8")
TOPOLOGIES = USUAL_TOPOLOGIES if IS_ALL else FEW
PAYLOADS = (2**10, 2**16, 2**20, 2**24) if IS_ALL else (2**10, 2**20)

KINDS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "permute",
}
_DONE = re.compile(r"(?P<kind>[a-z-]+?)-done")
_ASIDE = re.compile(r"(?:call|async)-(?P<phase>start|update|done)")


# A topology whose compiler is not installed, and a program that is refused, are left out: what is
# there must be known by its name, whatever else is true of it.
_COMPILE = """
from busbw.hardware import topologies
from busbw.model.words import Capability
real.prepare("jax", None, Capability.COMPILE)
from busbw.collectives import COLLECTIVES
from busbw.worker.backends.base import CompileError
from busbw.worker.backends.jax.compiler import JaxCompiler
from tests.helpers import build

compiler = JaxCompiler()
asked = json.loads(sys.argv[1])
for name in asked["topologies"]:
    topology = topologies.topology_of(name)
    if compiler.describe(topology).missing:
        continue
    for collective in COLLECTIVES:
        for size in asked["payloads"]:
            case = build.case(
                ranks=topology.ranks,
                collective=collective,
                payload_bytes=size,
                reduce_op="sum" if "reduce" in collective else "none",
                placement="in_place" if collective == "all_reduce" else "out_of_place",
                protocol="device/chain2",
            )
            try:
                text = compiler.lowered(case, topology).compiled().text
            except CompileError as error:
                text = ""
            say([name, collective, size, text])
"""


@dataclass(frozen=True)
class Program:
    """What was compiled, and the text; "" where the compiler refused it."""

    topology: str
    collective: str
    payload_bytes: int
    text: str


@dataclass(frozen=True)
class Collective:
    """An instruction that a recording shows, and what it is."""

    line: hlo.Instruction
    kind: str
    phase: Phase


def collectives(module: hlo.Module) -> Iterator[Collective]:
    """What runs collectives, by the operations of the text alone.

    What runs within a computation that is started aside shows on another device's lines, if at all.
    """
    aside = {
        name: inner.collective
        for lines in module.computations.values()
        for line in lines
        if _ASIDE.fullmatch(line.op)
        for name in line.called
        for inner in module.reached(name)
        if inner.collective
    }
    started: dict[str, str] = {}
    for name, lines in module.computations.items():
        for line in lines if name not in aside else ():
            short = line.name.removeprefix("%")
            done, apart = _DONE.fullmatch(line.op), _ASIDE.fullmatch(line.op)
            if line.collective:
                phase = Phase.START if line.op.endswith("-start") else Phase.WHOLE
                yield Collective(line, KINDS[line.collective], phase)
            elif done and done["kind"] in KINDS:
                yield Collective(line, KINDS[done["kind"]], Phase.DONE)
            elif apart:
                kinds = [aside[called] for called in line.called if called in aside]
                takes = re.findall(r"%([\w.-]+)", line.text.partition("(")[2])
                kinds += [started[name] for name in takes if name in started]
                if kinds:
                    started[short] = kinds[0]
                    yield Collective(line, KINDS[kinds[0]], Phase(apart["phase"]))


def recognized(line: hlo.Instruction, *, text: bool) -> Recognized | None:
    """What a recording's event of this instruction is taken for."""
    event = Event(
        name=line.name.removeprefix("%"),
        plane="/device:TPU:0",
        line="XLA Ops",
        start_s=0.0,
        duration_s=1.0,
        stats={"long_name": line.text.removeprefix("ROOT ")} if text else {},
    )
    return Recognizer().recognize(event)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, ...]:
    """All that could be compiled here."""
    asked = json.dumps({"topologies": TOPOLOGIES, "payloads": PAYLOADS})
    folder = str(tmp_path_factory.mktemp("names"))
    found = real.said(_COMPILE, asked, timeout_s=600.0, TPU_LOG_DIR=folder)
    return tuple(Program(*one) for one in found)


def test_programs_of_every_collective_and_of_every_chip_whose_compiler_is_here_are_looked_at(
    programs: tuple[Program, ...],
) -> None:
    there = {one.topology for one in programs if one.text}
    has_gpus = real.is_there("jax_plugins.xla_cuda13")
    assert there == {name for name in TOPOLOGIES if has_gpus or name.startswith(("v", "tpu"))}
    for topology in there:
        of_it = [one for one in programs if one.topology == topology]
        assert {one.collective for one in of_it if one.text} == set(KINDS.values())
        assert len(of_it) == len(KINDS) * len(PAYLOADS)


def test_every_collective_instruction_is_known_by_its_name_and_by_its_text(
    programs: tuple[Program, ...],
) -> None:
    wrong, seen = [], 0
    for program in programs:
        for one in collectives(hlo.read(program.text)):
            seen += 1
            parsed = parse_name(one.line.name)
            by_name = (parsed.kind, parsed.phase) if parsed else None
            by_text = recognized(one.line, text=True)
            # The name may be that of the primitive that became another collective.
            is_named = by_name is not None and by_name[0] != "" and by_name[1] is one.phase
            is_told = by_text is not None and (by_text.kind, by_text.phase) == (one.kind, one.phase)
            if not (is_named and is_told):
                wrong.append((program.topology, program.collective, one.line.text[:200]))
    assert wrong == []
    assert seen >= len(programs)


def test_every_program_has_a_collective_of_the_kind_that_it_is_for_or_is_refused_by_the_proof(
    programs: tuple[Program, ...],
) -> None:
    """On small payloads, and on old TPUs, another collective stands in: no time is taken of it."""
    for program in programs:
        kinds = {one.kind for one in collectives(hlo.read(program.text))}
        if program.text and program.collective not in kinds:
            assert kinds == {"all_reduce"}
            assert program.collective in ("all_gather", "reduce_scatter")


def test_nothing_else_in_the_programs_is_taken_for_a_collective(
    programs: tuple[Program, ...],
) -> None:
    """Markers around an offloaded collective and copies that bear its name among them."""
    for program in programs:
        module = hlo.read(program.text)
        right = {one.line.text for one in collectives(module)}
        for name, lines in module.computations.items():
            for line in lines:
                found = recognized(line, text=True)
                if line.text not in right and not line.collective and found is not None:
                    assert found.kind == "", (program.topology, name, line.text[:200])


def test_a_start_and_its_done_are_told_to_be_a_pair(programs: tuple[Program, ...]) -> None:
    for program in programs:
        numbers: dict[Phase, set[str]] = {phase: set() for phase in Phase}
        for one in collectives(hlo.read(program.text)):
            for text in (True, False):
                found = recognized(one.line, text=text)
                assert found is not None
                numbers[one.phase].add(found.number)
        assert numbers[Phase.START] == numbers[Phase.DONE] >= numbers[Phase.UPDATE]
