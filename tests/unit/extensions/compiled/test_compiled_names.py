"""Each collective that XLA's compilers make of busbw's programs has a begin and an end to be timed.

`--clock=device` finds the names of these instructions in recordings. `tox -e exhaustive`
compiles a few programs, with BUSBW_PROGRAMS=all those of every topology.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import pytest

from busbw.collectives import COLLECTIVES
from busbw.extensions.compiled.compilers import TOPOLOGY_SETS
from busbw.worker.backends import hlo
from busbw.worker.backends.recordings import end_by_begin_instruction_of
from tests.helpers import frameworks as real

pytestmark = [real.needs("jax"), real.needs("libtpu"), pytest.mark.exhaustive]

IS_ALL = os.environ.get("BUSBW_PROGRAMS") == "all"
FEW = ("v2:2x2", "v5e:2x4", "tpu7x:2x2x1", "h100:8")
TOPOLOGIES = TOPOLOGY_SETS["all"] if IS_ALL else FEW
PAYLOADS = (2**10, 2**16, 2**20, 2**24) if IS_ALL else (2**10, 2**20)

# A topology whose compiler is not installed, and a program that is refused, are left out: what is
# there must be known by its name, whatever else is true of it.
_COMPILE = """
from busbw.extensions.compiled import compilers
real.prepare("jax", None, compilers.COMPILER_ENVIRONMENT)
from busbw.collectives import COLLECTIVES
from busbw.extensions.compiled import worker_jax as compiler
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build

asked = json.loads(sys.argv[1])
for name in asked["topologies"]:
    topology = compilers.parse_topology(name)
    try:
        compiler.describe_compiler(topology)
    except MeasuringError:
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
                text = compiler.lower_program_of_case(case, topology).compile().text
            except MeasuringError as error:
                text = ""
            say([name, collective, size, text])
"""


@dataclass(frozen=True)
class Program:
    """A compiled program and its text, which is "" if the compiler refused the program."""

    topology: str
    collective: str
    payload_bytes: int
    text: str


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, ...]:
    """Return all programs that the installed compilers can compile."""
    request = json.dumps({"topologies": TOPOLOGIES, "payloads": PAYLOADS})
    folder = str(tmp_path_factory.mktemp("names"))
    answers = real.run_script(_COMPILE, request, timeout_s=600.0, TPU_LOG_DIR=folder)
    return tuple(Program(*answer) for answer in answers)


def test_each_topology_with_an_installed_compiler_compiles_a_program_of_each_collective(
    programs: tuple[Program, ...],
) -> None:
    compiled = {program.topology for program in programs if program.text}
    has_gpus = real.is_there("jax_plugins.xla_cuda13")
    assert compiled == {name for name in TOPOLOGIES if has_gpus or name.startswith(("v", "tpu"))}
    for topology in compiled:
        names = {
            compiled_program.collective
            for compiled_program in programs
            if compiled_program.topology == topology and compiled_program.text
        }
        assert names == set(COLLECTIVES)


def test_the_begin_and_the_end_of_each_compiled_collective_can_be_timed(
    programs: tuple[Program, ...],
) -> None:
    for program in programs:
        module = hlo.read_module(program.text)
        lines = {line.name: line for part in module.computations.values() for line in part}
        timed = end_by_begin_instruction_of(module)
        assert len(timed) == len(module.collectives()), program
        for begin, end in timed.items():
            is_pair = lines[begin].op.endswith(("-start", "-update"))
            assert lines[end].op.endswith("-done") is is_pair, program
            assert is_pair or begin == end
