"""Compile programs with XLA's compilers for TPUs and GPUs, without the chips.

libtpu compiles for TPUs, and JAX's package with XLA for CUDA compiles for GPUs. Neither compiler
needs hardware, and the compiler for GPUs needs no driver and no other part of CUDA.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from busbw.extensions.program import worker_jax as program_jax
from busbw.extensions.program.worker import compile_error, mesh_in_stablehlo
from busbw.model.case import Case
from busbw.model.words import DeviceClass, FailureKind
from busbw.worker.backends.base import (
    MeasuringError,
    first_line,
    recorded_variables,
    unavailable,
)
from busbw.worker.backends.framework import package_versions
from busbw.worker.backends.jax import collective
from busbw.worker.backends.jax.backend import describe_devices, jax_package_versions, make_mesh

from .worker import Compiler, LoweredProgram, OptimizedProgram, Topology

# The packages that contain a compiler, by the kind of device.
_COMPILER_PACKAGES = {
    DeviceClass.TPU: ("libtpu", "libtpu-nightly"),
    DeviceClass.GPU: ("jax-cuda13-pjrt", "jax-cuda12-pjrt"),
}


def describe_compiler(topology: Topology) -> Compiler:
    """Return the description of the installed compiler for `topology`.

    Raises MeasuringError with the kind UNAVAILABLE if no compiler is installed, or if the compiler
    does not support the topology.
    """
    release = _compiler_release(topology.device)
    devices = _devices_of_topology(topology)
    return Compiler(
        topology=topology.name,
        release=release,
        build=devices[0].client.platform_version,
        versions=jax_package_versions(),
        flags=recorded_variables(),
        devices=describe_devices(topology.device, devices, processes=topology.hosts),
    )


def lower_program_of_case(case: Case, topology: Topology) -> LoweredProgram:
    """Return the program of `case` for `topology`, before it is compiled.

    The program is the same program that a session would measure on such devices. Raises
    MeasuringError if the compiler does not know the topology, or if the function of a user's
    program fails.
    """
    devices = _devices_of_topology(topology)
    if case.program:
        user_program = program_jax.lower_program(case.program, devices)
        # The key of the cache must include line numbers, because compiled programs contain them.
        text = user_program.as_text(debug_info=True)
        return LoweredProgram(
            text, 1, partial(_compile, user_program, devices), mesh_in_stablehlo(text)
        )
    mesh = make_mesh(case, devices)
    program, step = collective.lower_accelerator_program(case, mesh, topology.device)
    return LoweredProgram(program.as_text(), step, partial(_compile, program, devices))


def _compile(lowered: Any, devices: Sequence[Any]) -> OptimizedProgram:
    """Compile `lowered`, a jax.stages.Lowered, for `devices`, and return the compiler's output.

    Raises MeasuringError if the compiler refuses the program, if this jaxlib is too old to read the
    output of the compiler, or if a user's program uses other devices than `devices`.
    """
    try:
        compiled = lowered.compile()
        shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
        memory = compiled.memory_analysis()
        text = compiled.as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise compile_error(error) from error
    used = {device for sharding in shardings for device in getattr(sharding, "device_set", ())}
    if not used <= set(devices):
        text = "it is made for other devices than those that it was given"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text)
    return OptimizedProgram(
        text=text,
        needed_bytes=memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        # Outputs share these bytes with arguments.
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        peak_bytes=getattr(memory, "peak_memory_in_bytes", 0),
    )


@functools.cache
def _devices_of_topology(topology: Topology) -> list[Any]:
    """Return JAX's descriptions of the devices of a topology, which need not be attached.

    Raises MeasuringError with the kind UNAVAILABLE and the compiler's own message if the compiler
    does not support the topology.
    """
    try:
        description = topologies.get_topology_desc(**topology.description_arguments)
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise unavailable(f"{topology.name}: {first_line(error)}") from error
    return list(description.devices)


def _compiler_release(device: DeviceClass) -> str:
    """Return the package and version of the compiler for TPUs or GPUs, such as ``libtpu 0.0.42.1``.

    For a file of libtpu that pip did not install, the text has the path of the file instead of a
    version. Raises MeasuringError if no compiler is installed.
    """
    # JAX sets the variable to the path of an installed libtpu.
    library = os.environ.get("TPU_LIBRARY_PATH")
    if device is DeviceClass.TPU and library:
        # pip and uv record the version of libtpu next to the folder of the library.
        records = sorted(Path(library).parent.parent.glob("libtpu-*.dist-info"))
        return records[0].stem.replace("-", " ") if records else f"libtpu of {library}"
    packages = _COMPILER_PACKAGES[device]
    installed = package_versions(*packages)
    releases = [f"{name} {installed[name]}" for name in packages if name in installed]
    if not releases:
        raise unavailable(
            f'{" or ".join(packages)} is not installed: pip install "busbw[compilers]"'
        )
    return releases[0]
