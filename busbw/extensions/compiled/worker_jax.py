"""JAX: XLA's compilers for TPUs and GPUs, without the chips, for the programs that measure.

libtpu compiles for TPUs, JAX's package with XLA for CUDA for GPUs. Neither needs hardware, the
latter neither a driver nor anything of CUDA.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jax.experimental import topologies

from busbw.model.case import Case
from busbw.model.machine import Compiler, Topology, check_layout
from busbw.model.words import Device
from busbw.worker import process
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.framework import first_line, package_versions
from busbw.worker.backends.jax import collective, user_program
from busbw.worker.backends.jax.backend import device_set, mesh_of, versions_of_packages
from busbw.worker.operations.user_program import Lowered

from .worker import RELEASE, AbstractCompiler

# Where JAX looks first for the compiler for TPUs.
_LIBRARY = "TPU_LIBRARY_PATH"
_FOR_GPUS = ("jax-cuda13-pjrt", "jax-cuda12-pjrt")
_SHOWN = 300


def open_compiler() -> AbstractCompiler:
    """Return the compilers of JAX."""
    return JaxCompiler()


class JaxCompiler(AbstractCompiler):
    """The compilers of `jax` for TPUs and GPUs. Topologies are asked for once."""

    def __init__(self) -> None:
        self._devices: dict[str, list[Any]] = {}

    def describe(self, topology: Topology) -> Compiler:
        missing = _missing(topology.device)
        if missing:
            return Compiler(topology=topology.name, missing=missing)
        try:
            found = self._of(topology)
        except MeasuringError as error:
            return Compiler(topology=topology.name, missing=str(error))
        return Compiler(
            topology=topology.name,
            release=_release(topology.device),
            build=found[0].client.platform_version,
            versions=versions_of_packages(),
            flags=process.flags(),
            devices=device_set(topology.device, found, processes=topology.hosts),
        )

    def lowered(self, case: Case, topology: Topology) -> Lowered:
        found = self._of(topology)
        if case.workload.program:
            return user_program.lowered(case.workload.program, found)
        _check_hosts(case, found)
        mesh = mesh_of(case, found)
        lowered, step = collective.lowered(case, mesh, topology.device)
        return Lowered(lowered.as_text(), step, partial(user_program.optimized, lowered))

    def _of(self, topology: Topology) -> list[Any]:
        if topology.name not in self._devices:
            self._devices[topology.name] = _devices(topology)
        return self._devices[topology.name]


def _check_hosts(case: Case, found: Sequence[Any]) -> None:
    """Raise MeasuringError UNAVAILABLE where a mesh has other hosts than the topology."""
    hosts = len({device.process_index for device in found})
    try:
        if case.mesh:
            check_layout(case.mesh, hosts, hosts)
    except ValueError as error:
        raise unavailable(str(error)) from error


def _devices(topology: Topology) -> list[Any]:
    """Return the devices of a topology.

    Raises MeasuringError UNAVAILABLE with the compiler's own words.
    """
    try:
        if topology.device is Device.TPU:
            config = {"chip_config_name": topology.chip_config} if topology.chip_config else {}
            found = topologies.get_topology_desc(
                platform="tpu", topology_name=topology.layout, **config
            )
        else:
            found = topologies.get_topology_desc(
                platform="cuda",
                topology_name=topology.name.partition(":")[0],
                target_config=topology.target_config,
                topology=topology.layout,
            )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        raise unavailable(f"{topology.name}: {first_line(error)[:_SHOWN]}") from error
    there = list(found.devices)
    if len(there) != topology.ranks:
        raise unavailable(
            f"{topology.name}: the compiler makes {len(there)} devices of it, "
            f"expected {topology.ranks}"
        )
    return there


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
    known = package_versions(*names)
    found = [f"{name} {known[name]}" for name in names if name in known]
    return found[0] if found else f"{names[0]} of unknown version"


def _release_of(library: Path) -> str:
    """Return the release that pip recorded next to the folder of a library."""
    found = sorted(library.parent.parent.glob("libtpu-*.dist-info"))
    version = found[0].name.removesuffix(".dist-info").split("-", 1)[1] if found else ""
    return f"libtpu {version}" if version else f"libtpu of {library}"
