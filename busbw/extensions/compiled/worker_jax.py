"""JAX: XLA's compilers for TPUs and GPUs, without the chips, for the programs that measure.

libtpu compiles for TPUs, JAX's package with XLA for CUDA for GPUs. Neither needs hardware, the
latter neither a driver nor anything of CUDA.
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
from busbw.extensions.program.worker_inventory import mesh_of as mesh_in
from busbw.model.case import Case
from busbw.model.words import Device, FailureKind
from busbw.worker import process
from busbw.worker.backends.base import MeasuringError, first_line, unavailable
from busbw.worker.backends.framework import package_versions
from busbw.worker.backends.jax import collective
from busbw.worker.backends.jax.backend import describe_devices, jax_package_versions, make_mesh

from .worker_programs import CompileError, Lowered, Optimized
from .worker_values import RELEASE, Compiler, Topology

# Where JAX looks first for the compiler for TPUs.
_LIBRARY = "TPU_LIBRARY_PATH"
_FOR_GPUS = ("jax-cuda13-pjrt", "jax-cuda12-pjrt")
_SHOWN = 300


def describe(topology: Topology) -> Compiler:
    """Return the compiler for `topology`; where there is none, why."""
    missing = _missing(topology.device)
    if missing:
        return Compiler(topology=topology.name, missing=missing)
    try:
        devices = _devices(topology)
    except MeasuringError as error:
        return Compiler(topology=topology.name, missing=str(error))
    return Compiler(
        topology=topology.name,
        release=_release(topology.device),
        build=devices[0].client.platform_version,
        versions=jax_package_versions(),
        flags=process.recorded_variables(),
        devices=describe_devices(topology.device, devices, processes=topology.hosts),
    )


def lowered(case: Case, topology: Topology) -> Lowered:
    """Return the program that measuring `case` on `topology` would run. Raises MeasuringError."""
    devices = _devices(topology)
    if case.program:
        user_program = program_jax.lowered(case.program, devices)
        # Lines that moved make another program for the cache: compiled programs name lines.
        text = user_program.as_text(debug_info=True)
        return Lowered(text, 1, partial(_optimized, user_program, devices), mesh_in(text))
    mesh = make_mesh(case, devices)
    program, step = collective.lower_case_program(case, mesh, topology.device)
    return Lowered(program.as_text(), step, partial(_optimized, program))


def _optimized(lowered: Any, devices: Sequence[Any] | None = None) -> Optimized:
    """Compile a program, a user's for `devices`.

    Raises CompileError, also where this jaxlib cannot read a newer compiler's output.
    """
    try:
        compiled = lowered.compile()
        if devices is not None:
            _check_devices(compiled, devices)
        stats, text = compiled.memory_analysis(), compiled.as_text()
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
        raise CompileError(str(error).strip()) from error
    return Optimized(
        text=text,
        argument_bytes=int(stats.argument_size_in_bytes),
        output_bytes=int(stats.output_size_in_bytes),
        alias_bytes=int(stats.alias_size_in_bytes),
        temporary_bytes=int(stats.temp_size_in_bytes),
        peak_bytes=int(getattr(stats, "peak_memory_in_bytes", 0)),
    )


def _check_devices(compiled: Any, devices: Sequence[Any]) -> None:
    """Raise MeasuringError where a user's program uses devices that it was not given."""
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    used = {device for sharding in shardings for device in getattr(sharding, "device_set", ())}
    if not used <= set(devices):
        kinds = ", ".join(sorted({device.device_kind for device in used.difference(devices)}))
        text = f"it is made for other devices ({kinds}) than those that it was given"
        raise MeasuringError(FailureKind.PROGRAM_ERROR, text)


@functools.cache
def _devices(topology: Topology) -> list[Any]:
    """Return the devices of a topology.

    Raises MeasuringError UNAVAILABLE with the compiler's own words.
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


def _missing(device: Device) -> str:
    if device is Device.TPU:
        if os.environ.get(_LIBRARY) or importlib.util.find_spec("libtpu"):
            return ""
        return 'libtpu is not installed: pip install "busbw[compilers]"'
    if not package_versions(*_FOR_GPUS).keys().isdisjoint(_FOR_GPUS):
        return ""
    return 'XLA for CUDA is not installed: pip install "busbw[compilers]"'


def _release(device: Device) -> str:
    if device is Device.TPU and os.environ.get(_LIBRARY):
        return os.environ.get(RELEASE) or _release_of(Path(os.environ[_LIBRARY]))
    names = ("libtpu",) if device is Device.TPU else _FOR_GPUS
    versions = package_versions(*names)
    releases = [f"{name} {versions[name]}" for name in names if name in versions]
    return releases[0] if releases else f"{names[0]} of unknown version"


def _release_of(library: Path) -> str:
    """Return the release that pip recorded next to the folder of a library."""
    records = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    if not records:
        return f"libtpu of {library}"
    return f"libtpu {records[0].name.removesuffix('.dist-info').split('-', 1)[1]}"
