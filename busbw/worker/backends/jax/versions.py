"""Hides the differences between versions of JAX from the other modules of this folder.

Each function of this module does the same with every version from `OLDEST_VERSION` on. A feature
that an old version lacks is left out. The proof and the check of values do not depend on the
version, and no function of this module is called while a clock runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass

from ..base import first_line, unavailable
from ..framework import check_version, is_older

# The oldest version of JAX that busbw measures.
OLDEST_VERSION = "0.5.0"

# Settings of JAX's profiler by the class of device. SparseCores are not recorded: their events fill
# the same buffers, so that recordings lacked collectives. A collective that a SparseCore runs has
# its start and its end on the TensorCore.
_PROFILER_SETTINGS: Mapping[DeviceClass | None, Mapping[str, str | int]] = {
    DeviceClass.TPU: {
        "tpu_trace_mode": "TRACE_ONLY_XLA",
        "tpu_num_sparse_cores_to_trace": 0,
        "tpu_num_sparse_core_tiles_to_trace": 0,
    }
}

# The oldest version whose compilation cache is used. With jaxlib 0.6.0, the loop of a program for
# the CPU that is loaded from the cache runs no iteration. Older versions were not tried.
_OLDEST_VERSION_WITH_CACHE = "0.6.1"

# Seconds to wait for the other processes of a group. The driver's own timeout is longer, so that
# this error is the reported error.
_JOIN_TIMEOUT_S = 120


def check_framework_version() -> None:
    """Raise MeasuringError UNAVAILABLE if the imported JAX is older than `OLDEST_VERSION`."""
    check_version("jax", jax.__version__, OLDEST_VERSION)


def use_compilation_cache(folder: str) -> None:
    """Make JAX store compiled programs in `folder`, for later processes of the session.

    JAX then loads a program from the folder if the program, the compiler's options and the versions
    are the same. If JAX is older than `_OLDEST_VERSION_WITH_CACHE`, the function does nothing.
    """
    if is_older(jax.__version__, _OLDEST_VERSION_WITH_CACHE):
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def join_group(member: GroupMember, local_ranks: int | None) -> None:
    """Join this process to its group of processes, by `jax.distributed.initialize`.

    Call this function before JAX opens its devices. The function also chooses the GPUs of this
    process, even if no GPUs are measured, because the class of device is not known yet.

    Args:
        member: this process and its group.
        local_ranks: the number of GPUs that each process uses, None for all GPUs. The first process
            of a host uses the first GPUs, the second process the following GPUs. If processes share
            GPUs, each process uses the first GPUs that it sees.

    Raises:
        MeasuringError: UNAVAILABLE if the process cannot join, for example because another process
            of the group is missing.

    """
    index = member.index
    # JAX 0.5.0 has no collectives between processes on CPUs by default.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    _bind_gloo(member.addresses[index])
    position = 0 if member.shared_devices else index % member.processes_per_host
    gpus = None
    if local_ranks:
        gpus = list(range(local_ranks * position, local_ranks * (position + 1)))
    first = member.addresses[0]
    try:
        jax.distributed.initialize(
            coordinator_address=first,
            num_processes=member.process_count,
            process_id=index,
            local_device_ids=gpus,
            cluster_detection_method="deactivate",
            initialization_timeout=_JOIN_TIMEOUT_S,
            # By default the first process listens on every network of its host.
            coordinator_bind_address=first if index == 0 else None,
        )
    except (RuntimeError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise unavailable(
            f"process {index} does not join its group: {first_line(error)}"
        ) from error


def _bind_gloo(address: str) -> None:
    """Make gloo listen on the host in `address`, such as ``node1`` in ``node1:5000``.

    gloo is the library by which JAX connects processes on CPUs. By default gloo listens on the
    address of the host's name, which other hosts may not reach.
    """
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    name = "make_gloo_tcp_collectives"
    # JAX has imported this module already. Before jaxlib 0.6.1 the module has another name, and
    # gloo keeps its default address.
    jaxlib = sys.modules.get("jaxlib._jax")
    make = getattr(jaxlib, name, None)
    if make is not None:
        setattr(jaxlib, name, functools.partial(make, hostname=host))


def shard_map(function: Callable[..., Any], *, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """Return a function that runs `function` on each rank of `mesh`.

    This is `jax.shard_map`, or the experimental form of an old JAX. JAX checks which values are
    equal on all ranks. In the old form this check is off, because it fails for some operations.

    Args:
        function: takes a rank's part of each argument, and returns the rank's part of each result.
        mesh: the mesh of devices.
        in_specs: the PartitionSpec of each argument: how the argument is spread over the mesh.
        out_specs: the PartitionSpec of each result.

    """
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    old_shard_map = importlib.import_module("jax.experimental.shard_map").shard_map
    return old_shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False
    )


def type_as_varying(values: Any, axes: tuple[str, ...]) -> Any:
    """Return `values` with JAX's type for values that differ between ranks along `axes`.

    An old JAX has no such type: then `values` are returned unchanged.
    """
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(values, axes, to="varying")
    if hasattr(jax, "shard_map"):
        return getattr(jax.lax, "pvary")(values, axes)  # noqa: B009
    return values


def has_readable_profiler() -> bool:
    """Return whether the imported JAX has a profiler that busbw can use.

    Such a JAX can read recordings of its profiler, and can record without calls of Python.
    """
    return hasattr(jax.profiler, "ProfileOptions") and hasattr(jax.profiler, "ProfileData")


@contextlib.contextmanager
def run_profiler(folder: Path, device: DeviceClass | None) -> Iterator[None]:
    """Record the `with` block with JAX's profiler, into files in `folder`.

    Calls of Python are not recorded. The profiler starts with special settings for the class of
    device `device` or, if it refuses these settings, with its default settings. Raises
    MeasuringError UNAVAILABLE if the profiler does not start. (JAX itself would raise no error, and
    record without the device.)
    """
    errors = (jax.errors.JaxRuntimeError, RuntimeError, ValueError)
    try:
        _start_profiler(folder, _PROFILER_SETTINGS.get(device, {}))
    except errors as first_error:
        try:
            _start_profiler(folder, {})
        except errors:
            raise unavailable(
                f"JAX's profiler does not start: {first_line(first_error)}"
            ) from first_error
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def _start_profiler(folder: Path, settings: Mapping[str, str | int]) -> None:
    """Start JAX's profiler, which writes files in `folder` and records no calls of Python.

    `settings` are the settings of the profiler for the class of device, empty for its defaults.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    if hasattr(options, "raise_error_on_start_failure"):
        options.raise_error_on_start_failure = True
    if settings:
        options.advanced_configuration = dict(settings)
    jax.profiler.start_trace(folder, profiler_options=options)
