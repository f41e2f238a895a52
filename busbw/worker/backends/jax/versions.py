"""Differences between versions of JAX: the other files of this folder are for the newest version.

Each function does the same with every version. Features that an old version lacks are not offered.
Names that the newest version lacks are looked up as text. The proof and the check of values know no
versions, and no function of this file is called while a clock runs.
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

from busbw.model.cluster import ClusterMember
from busbw.model.words import Device

from ..base import first_line, unavailable
from ..framework import check_version, is_older

OLDEST = "0.5.0"

# A collective that a SparseCore runs is timed by its start and end on the TensorCore. The events of
# SparseCores themselves fill the same buffers, and recordings lacked collectives.
_PROFILER_SETTINGS: Mapping[Device | None, Mapping[str, str | int]] = {
    Device.TPU: {
        "tpu_trace_mode": "TRACE_ONLY_XLA",
        "tpu_num_sparse_cores_to_trace": 0,
        "tpu_num_sparse_core_tiles_to_trace": 0,
    }
}

# jaxlib 0.6.0 loads a CPU program whose loop runs no iteration from its cache; older versions were
# not tried.
_OLDEST_CACHE = "0.6.1"

# The driver's own timeout for a start is longer.
_JOIN_S = 120


def check() -> None:
    """Raise MeasuringError UNAVAILABLE if this JAX is older than `OLDEST`."""
    check_version("jax", jax.__version__, OLDEST)


def keep_programs(folder: str) -> None:
    """Keep compiled programs in `folder` for later processes of the session.

    JAX finds them by the program, the options and the versions. Old versions keep none.
    """
    if is_older(jax.__version__, _OLDEST_CACHE):
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def join(member: ClusterMember, local_ranks: int | None) -> None:
    """Make this process a member of its group, before it looks for devices.

    The process takes `local_ranks` GPUs of its host, those after its neighbours' GPUs, or all GPUs
    for None. It takes the only visible GPU if it shares a GPU. GPUs are chosen whatever the device
    is, because the device is not known yet. Raises MeasuringError UNAVAILABLE if the other
    processes are not found.
    """
    index = member.index
    # JAX 0.5.0 has no collectives between processes on CPUs by default.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    _bind_gloo(member.addresses[index])
    place = 0 if member.shared_devices else index % member.on_host
    gpus = list(range(local_ranks * place, local_ranks * (place + 1))) if local_ranks else None
    first = member.addresses[0]
    try:
        jax.distributed.initialize(
            coordinator_address=first,
            num_processes=member.count,
            process_id=index,
            local_device_ids=gpus,
            cluster_detection_method="deactivate",
            initialization_timeout=_JOIN_S,
            # By default the first process listens on every network of its host.
            coordinator_bind_address=first if index == 0 else None,
        )
    except (RuntimeError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise unavailable(
            f"process {index} does not join its group: {first_line(error)}"
        ) from error


def _bind_gloo(address: str) -> None:
    """Let gloo listen on a process's own address.

    By default it listens on the address of the host's name, which other hosts may not reach.
    """
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    name = "make_gloo_tcp_collectives"
    # JAX has imported this module. Before jaxlib 0.6.1 the module has another name, and gloo keeps
    # its default.
    jaxlib = sys.modules.get("jaxlib._jax")
    make = getattr(jaxlib, name, None)
    if make is not None:
        setattr(jaxlib, name, functools.partial(make, hostname=host))


def shard_map(function: Callable[..., Any], *, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """Map a function over the ranks of a mesh.

    An old JAX does not check which values are equal on all ranks: it does not know all operations.
    """
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    old_shard_map = importlib.import_module("jax.experimental.shard_map").shard_map
    return old_shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False
    )


def varying(values: Any, axes: tuple[str, ...]) -> Any:
    """Type `values` as if they differed between ranks, if JAX has such types."""
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(values, axes, to="varying")
    if hasattr(jax, "shard_map"):
        return getattr(jax.lax, "pvary")(values, axes)  # noqa: B009
    return values


def has_readable_profiler() -> bool:
    """Return whether JAX can record without Python's own calls, and read its recordings."""
    return hasattr(jax.profiler, "ProfileOptions") and hasattr(jax.profiler, "ProfileData")


@contextlib.contextmanager
def recording(folder: Path, device: Device | None) -> Iterator[None]:
    """Record with the profiler, without Python's own calls and with the settings for `device`.

    A compiler for TPUs may not know the settings; then there are none. Raises MeasuringError
    UNAVAILABLE if the profiler does not start: it would leave out the device without an error.
    """
    errors = (jax.errors.JaxRuntimeError, RuntimeError, ValueError)
    try:
        _start(folder, _PROFILER_SETTINGS.get(device, {}))
    except errors as first_error:
        try:
            _start(folder, {})
        except errors:
            reason = first_line(first_error)
            raise unavailable(f"JAX's profiler does not start: {reason}") from first_error
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def _start(folder: Path, settings: Mapping[str, str | int]) -> None:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    if hasattr(options, "raise_error_on_start_failure"):
        options.raise_error_on_start_failure = True
    if settings:
        options.advanced_configuration = dict(settings)
    jax.profiler.start_trace(folder, profiler_options=options)
