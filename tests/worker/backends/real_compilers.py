"""XLA's own compilers in workers as the driver starts them, and with a program that was broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from busbw import grid
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport
from busbw.driver.parallel import Job, Parallel
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.hardware.topologies import topology_of as hardware_topology_of
from busbw.model.case import Case
from busbw.model.launch import Compiled, Failure
from busbw.model.machine import Compiler
from busbw.model.words import Capability
from tests import build

TIMEOUT_S = 120.0

# A topology, and what is asked for beside a JAX all-reduce of 1M.
Wanted = tuple[str, Mapping[str, object]]


def compiling_starter() -> Starter:
    """XLA's compilers, as JAX has them here."""
    return Starter(
        python=sys.executable,
        framework="jax",
        capability=Capability.COMPILE,
        defaults=FRAMEWORKS["jax"].environment,
    )


def described(topologies: Iterable[str]) -> dict[str, Compiler]:
    """What the compiler is for each of the topologies."""
    bundle = Bundle()
    try:
        topology_of = hardware_topology_of
        found = _compiling(bundle).describe("", [topology_of(name) for name in topologies])
        return {one.topology: one for one in found}
    finally:
        bundle.remove()


def answers(
    wanted: Mapping[str, Wanted], compilers: Mapping[str, Compiler]
) -> dict[str, Compiled | Failure]:
    """What becomes of each that is wanted, by its name."""
    bundle = Bundle()
    try:
        compiling = _compiling(bundle)
        jobs = {
            name: Job(
                case=_case(compilers[topology], changes), topology=hardware_topology_of(topology)
            )
            for name, (topology, changes) in wanted.items()
        }
        compiling.run(list(jobs.values()))
        return {name: compiling.results[job] for name, job in jobs.items()}
    finally:
        bundle.remove()


def _compiling(bundle: Bundle) -> Parallel:
    executor = Executor(LocalTransport(bundle))
    return Parallel(executor, {"": compiling_starter()}, workers=2, timeout_s=TIMEOUT_S)


def _case(compiler: Compiler, changes: Mapping[str, object]) -> Case:
    assert compiler.devices is not None, compiler.missing
    spec = build.spec(**{"payload_bytes": 2**20, **changes})
    return grid.resolve_on(spec, compiler.devices)[0]


# What is compiled after the collective was replaced in the program.
_SABOTAGED = """
import os, sys
sys.path.insert(0, os.getcwd())
from busbw.hardware import topologies
from busbw.model.words import Capability
from tests.worker.backends import real
_, folder, topology, mesh, collective = sys.argv
os.environ["TPU_LOG_DIR"] = folder
real.prepare("jax", None, Capability.COMPILE)
import jax
from busbw.worker.backends.jax import collective as forms
from busbw.worker.backends.jax.compiler import JaxCompiler
from busbw.worker.compile import CompileSession
from tests import build
forms.lowerings.lower = eval("lambda case, axes, values: " + collective)
case = build.case(ranks=8, mesh=mesh, payload_bytes=2**20, protocol="device/chain2")
bench = CompileSession(compiler=JaxCompiler(), launch="1")
print("ANSWER", bench.compile(case, topologies.topology_of(topology)))
"""


def sabotaged(topology: str, collective: str, folder: Path, *, mesh: str = "") -> str:
    """What is said of an all-reduce of 1M that is `collective` instead, a Python expression."""
    done = subprocess.run(
        [sys.executable, "-c", _SABOTAGED, str(folder), topology, mesh, collective],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    return answer
