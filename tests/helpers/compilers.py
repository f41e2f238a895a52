"""Compile programs for TPUs and GPUs in workers, as a session with --topology does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from busbw.driver.transport import WorkerSpec
from busbw.extensions.compiled.compilers import COMPILER_ENVIRONMENT, ParallelCompiler
from busbw.extensions.compiled.judge import CompileJob
from busbw.extensions.compiled.worker import CompiledProgram, Compiler, CompileSpec
from busbw.grid import MeasuredDevices, resolve_case_without_hosts
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure
from busbw.model.machine import DeviceSet, EnvironmentKey
from tests.helpers import compiled as made
from tests.helpers.frameworks import TIMEOUT_S, local_executor, run_script

# A topology, and what is asked for beside a JAX all-reduce of 1M.
Wanted = tuple[str, Mapping[str, object]]


@contextlib.contextmanager
def compiling() -> Iterator[ParallelCompiler]:
    """XLA's compilers, as JAX has them here, in two workers as the driver starts them."""
    worker_spec = WorkerSpec(
        python=sys.executable,
        framework="jax",
        service="compile",
        default_variables=COMPILER_ENVIRONMENT,
    )
    with local_executor() as executor:
        yield ParallelCompiler(executor, {"": worker_spec}, worker_count=2, timeout_s=TIMEOUT_S)


def compilers(topologies: Iterable[str]) -> dict[str, Compiler]:
    """Describe the compiler of each of the topologies."""
    with compiling() as parallel, parallel.executor:
        return {name: parallel.describe_compiler("", name) for name in topologies}


def case_on(spec: CaseSpec, devices: DeviceSet) -> tuple[Case, EnvironmentKey]:
    """Return the case of `spec` on devices that need not be attached, and its environment key."""
    target = MeasuredDevices(
        device=devices.device, reason="", device_sets={spec.framework: devices}
    )
    return resolve_case_without_hosts(spec, target)


def compiled(
    programs: Mapping[str, Wanted], available: Mapping[str, Compiler]
) -> dict[str, CompiledProgram | Failure]:
    """Compile each program of `programs`, and return the results by name."""
    specs = {
        name: made.spec(topology, **{"payload_bytes": 2**20, **changes})
        for name, (topology, changes) in programs.items()
    }
    return compile_specs(specs, available)


def compile_specs(
    specs: Mapping[str, CompileSpec], available: Mapping[str, Compiler], cache: Path | None = None
) -> dict[str, CompiledProgram | Failure]:
    """Compile the program of each of `specs`, and return the results by name."""
    jobs = {}
    for spec in specs.values():
        devices = available[spec.topology].devices
        assert devices is not None, available[spec.topology].missing
        case, key = case_on(spec, devices)
        jobs[spec] = CompileJob(case=case, key=key)
    with compiling() as parallel:
        parallel.cache = cache
        results = parallel.compile_jobs(jobs)
    return {name: results[spec] for name, spec in specs.items()}


# What is compiled after the collective was replaced in the program.
_SABOTAGED_PROGRAM = """
from busbw import wire
from busbw.extensions.compiled import compilers, worker, worker_jax
_, topology, mesh, collective = sys.argv
real.prepare("jax", None, compilers.COMPILER_ENVIRONMENT)
import jax
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.jax import collective as forms
from tests.helpers import build
forms.lowerings.all_reduce = eval("lambda case, axes, values: " + collective)
case = build.case(ranks=8, mesh=mesh, payload_bytes=2**20, protocol="device/chain2")
try:
    request = {"case": case, "topology": compilers.parse_topology(topology), "cache": ""}
    say(str(worker.compile_case(worker_jax, wire.to_json(request))))
except MeasuringError as error:
    say(f"{error.kind}: {error}")
"""


def sabotaged_program(topology: str, collective: str, folder: Path, *, mesh: str = "") -> str:
    """Compile an all-reduce of 1M that is `collective` instead, a Python expression."""
    (answer,) = run_script(_SABOTAGED_PROGRAM, topology, mesh, collective, TPU_LOG_DIR=str(folder))
    return str(answer)
