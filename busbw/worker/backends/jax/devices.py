"""JAX's devices as values: what a set of them is, how it would be measured on, meshes of them.

The same for devices that are there and for those of a topology that is not.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils

from busbw.model import AXES, Case, Device, DeviceSet, FailureKind, extents_of
from busbw.worker import environ, host

from ..base import MeasuringError
from ..framework import clocks
from . import versions

PROGRAM = "chain2"


def device_set(device: Device, found: Sequence[Any], *, processes: int | None = None) -> DeviceSet:
    """What `found`, all of one class, are; `processes` None: as many as JAX runs in."""
    virtual = device is Device.CPU
    processes = jax.process_count() if processes is None else processes
    return DeviceSet(
        device=device,
        device_kind=host.cpu_model() if virtual else found[0].device_kind,
        ranks=len(found),
        any_ranks=virtual,
        program=f"{PROGRAM}-{'two-buffers' if virtual else 'one-buffer'}",
        allocator=_allocator(device),
        strategies={"default": "psum", "psum": "psum"},
        clocks=clocks(device, recorded=versions.has_quiet_profiler()),
        mesh=_mesh_text(found) if device is Device.TPU else "",
        cores=host.cores() if virtual else None,
        processes=processes,
        hosts=processes,
    )


def mesh_of(case: Case, devices: Sequence[Any]) -> jax.sharding.Mesh:
    """The mesh that `case` runs over. Raises MeasuringError where there are too few devices."""
    if len(devices) < case.ranks:
        raise MeasuringError(
            FailureKind.UNAVAILABLE, f"{case.ranks} ranks asked for, {len(devices)} devices"
        )
    taking_part = list(devices[: case.ranks])
    if not case.axes:
        return jax.sharding.Mesh(np.array(taking_part), ("ranks",))
    extents = extents_of(case.mesh)
    laid_out = mesh_utils.create_device_mesh(extents, taking_part)
    return jax.sharding.Mesh(laid_out, tuple(AXES[: len(extents)]))


def versions_of_packages() -> dict[str, str]:
    """The versions of Python and of the packages that decide what JAX does."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    cuda = [f"jax-cuda{major}-{part}" for major in (12, 13) for part in ("plugin", "pjrt")]
    for name in ("jax", "jaxlib", "libtpu", *cuda):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _allocator(device: Device) -> str:
    if device is Device.CPU:
        return environ.allocator()
    preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") != "false"
    return "preallocated" if preallocated else "grown"


def _mesh_text(devices: Sequence[Any]) -> str:
    """The extent of the slice, such as ``2x4``, from the devices' coordinates."""
    coordinates = [device.coords for device in devices]
    extents = [max(axis) - min(axis) + 1 for axis in zip(*coordinates)]
    while len(extents) > 2 and extents[-1] == 1:
        extents.pop()
    return "x".join(str(extent) for extent in extents)
