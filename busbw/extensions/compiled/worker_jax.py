"""Compile programs with XLA's compilers for TPUs and GPUs, without the chips.

libtpu compiles for TPUs, and JAX's package with XLA for CUDA compiles for GPUs. Neither compiler
needs hardware, and the compiler for GPUs needs no driver and no other part of CUDA.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from busbw.extensions.program import worker_jax as program_jax
from busbw.extensions.program.worker_inventory import mesh_in_stablehlo
from busbw.model.case import Case
from busbw.model.words import Device, FailureKind
from busbw.worker import process
from busbw.worker.backends.base import MeasuringError, first_line, unavailable
from busbw.worker.backends.framework import package_versions
from busbw.worker.backends.jax import collective
from busbw.worker.backends.jax.backend import describe_devices, jax_package_versions, make_mesh

from .worker_programs import CompileError, LoweredProgram, OptimizedProgram
from .worker_values import RELEASE_VARIABLE, Compiler, Topology

# The variable with the path of the libtpu that JAX uses.
_LIBRARY = "TPU_LIBRARY_PATH"
_FOR_GPUS = ("jax-cuda13-pjrt", "jax-cuda12-pjrt")
_SHOWN = 300


def describe_compiler(topology: Topology) -> Compiler:
    """Return the compiler for `topology`; if it is missing, the result has the reason."""
    missing = _missing_compiler_text(topology.device)
    if missing:
        return Compiler(topology=topology.name, missing=missing)
    try:
        devices = _devices_of_topology(topology)
    except MeasuringError as error:
        return Compiler(topology=topology.name, missing=str(error))
    return Compiler(
        topology=topology.name,
        release=_compiler_release(topology.device),
        build=devices[0].client.platform_version,
        versions=jax_package_versions(),
        flags=process.recorded_variables(),
        devices=describe_devices(topology.device, devices, processes=topology.hosts),
    )


def lower_case(case: Case, topology: Topology) -> LoweredProgram:
    """Return the program that measuring `case` on `topology` would run.

    Raises MeasuringError if the topology is unknown to the compiler, or if a user's program fails.
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
    program, step = collective.lower_case_program(case, mesh, topology.device)
    return LoweredProgram(program.as_text(), step, partial(_compile, program))


def _compile(lowered: Any, devices: Sequence[Any] | None = None) -> OptimizedProgram:
    """Compile a lowered program; `devices` are the devices of a user's program, None for a case.

    Raises CompileError if the compiler refuses the program, or if this jaxlib is too old to read
    the output of the compiler. Raises MeasuringError if a user's program uses other devices.
    """
    try:
        compiled = lowered.compile()
        if devices is not None:
            _check_devices(compiled, devices)
        stats, text = compiled.memory_analysis(), compiled.as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise CompileError(str(error).strip()) from error
    return OptimizedProgram(
        text=text,
        argument_bytes=int(stats.argument_size_in_bytes),
        output_bytes=int(stats.output_size_in_bytes),
        alias_bytes=int(stats.alias_size_in_bytes),
        temporary_bytes=int(stats.temp_size_in_bytes),
        peak_bytes=int(getattr(stats, "peak_memory_in_bytes", 0)),
    )


def _check_devices(compiled: Any, devices: Sequence[Any]) -> None:
    """Raise MeasuringError if a user's program uses devices other than `devices`."""
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    used = {device for sharding in shardings for device in getattr(sharding, "device_set", ())}
    if not used <= set(devices):
        kinds = ", ".join(sorted({device.device_kind for device in used.difference(devices)}))
        text = f"it is made for other devices ({kinds}) than those that it was given"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text)


@functools.cache
def _devices_of_topology(topology: Topology) -> list[Any]:
    """Return the devices of a topology.

    Raises MeasuringError UNAVAILABLE, with the compiler's own message, if the compiler does not
    support the topology.
    """
    try:
        if topology.device is Device.TPU:
            config = {"chip_config_name": topology.chip_config} if topology.chip_config else {}
            description = topologies.get_topology_desc(
                platform="tpu", topology_name=topology.layout, **config
            )
        else:
            description = topologies.get_topology_desc(
                platform="cuda",
                topology_name=topology.name.partition(":")[0],
                target_config=topology.target_config,
                topology=topology.layout,
            )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise unavailable(f"{topology.name}: {first_line(error)[:_SHOWN]}") from error
    devices = list(description.devices)
    if len(devices) != topology.ranks:
        raise unavailable(
            f"{topology.name}: the compiler makes {len(devices)} devices of it, "
            f"expected {topology.ranks}"
        )
    return devices


def _missing_compiler_text(device: Device) -> str:
    """Return which package has to be installed for a kind of device; empty if it is installed."""
    if device is Device.TPU:
        if os.environ.get(_LIBRARY) or importlib.util.find_spec("libtpu"):
            return ""
        return 'libtpu is not installed: pip install "busbw[compilers]"'
    if not package_versions(*_FOR_GPUS).keys().isdisjoint(_FOR_GPUS):
        return ""
    return 'XLA for CUDA is not installed: pip install "busbw[compilers]"'


def _compiler_release(device: Device) -> str:
    """Return the package and version of the compiler, such as ``libtpu 0.0.42.1``."""
    if device is Device.TPU and os.environ.get(_LIBRARY):
        return os.environ.get(RELEASE_VARIABLE) or _libtpu_release(Path(os.environ[_LIBRARY]))
    names = ("libtpu",) if device is Device.TPU else _FOR_GPUS
    versions = package_versions(*names)
    releases = [f"{name} {versions[name]}" for name in names if name in versions]
    return releases[0] if releases else f"{names[0]} of unknown version"


def _libtpu_release(library: Path) -> str:
    """Return the release that pip noted beside a library of libtpu, or else the library's path."""
    records = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    if not records:
        return f"libtpu of {library}"
    return f"libtpu {records[0].name.removesuffix('.dist-info').split('-', 1)[1]}"
