"""What has another name in older versions of JAX: the other files here are for a current one.

Each function does what a current JAX does, or the same with an older one's API; the proof and the
check of values know no versions. What an older one cannot do is not offered. What a current JAX no
longer has is looked up by name. No case and no reading of a clock may enter.
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

from ..base import unavailable
from ..framework import check_version, first_line, is_before

OLDEST = "0.5.0"

# A collective that a SparseCore runs is read from its start and its end on the TensorCore. What
# SparseCores note of themselves fills the same buffers: it made recordings lack collectives.
_OF_DEVICE: Mapping[Device | None, Mapping[str, str | int]] = {
    Device.TPU: {
        "tpu_trace_mode": "TRACE_ONLY_XLA",
        "tpu_num_sparse_cores_to_trace": 0,
        "tpu_num_sparse_core_tiles_to_trace": 0,
    }
}

# A CPU's program that jaxlib 0.6.0 loads from a cache runs no turn of its loop; before that, nobody
# has tried what one does.
_KEEPS_PROGRAMS = "0.6.1"

# The driver's own timeout for a start is longer.
_JOIN_S = 120


def check() -> None:
    """Raise MeasuringError UNAVAILABLE where this JAX is older than `OLDEST`."""
    check_version("jax", jax.__version__, OLDEST)


def keep_programs(folder: str) -> None:
    """Compiled ones in `folder`, where a later process of the session finds them.

    JAX's key is the program, the options and the versions. Only as of `_KEEPS_PROGRAMS`.
    """
    if is_before(jax.__version__, _KEEPS_PROGRAMS):
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def join(member: ClusterMember, own: int | None) -> None:
    """Make this process one of its group, before any device is asked for.

    It takes `own` of its host's GPUs, those after its neighbours', or all where `own` is None; of a
    GPU that it shares, the only one that it sees. They are named whatever the device, because GPUs
    are looked for before that is known. Raises MeasuringError UNAVAILABLE if the others are not
    found.
    """
    index = member.index
    # JAX 0.5.0 has no collectives between processes on CPUs by default.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    _let_gloo_listen_at(member.addresses[index])
    place = 0 if member.shared_devices else index % member.on_host
    local = list(range(own * place, own * (place + 1))) if own else None
    first = member.addresses[0]
    try:
        jax.distributed.initialize(
            coordinator_address=first,
            num_processes=member.count,
            process_id=index,
            local_device_ids=local,
            cluster_detection_method="deactivate",
            initialization_timeout=_JOIN_S,
            # By default the first one listens on every network of its host.
            coordinator_bind_address=first if index == 0 else None,
        )
    except (RuntimeError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise unavailable(
            f"process {index} does not join its group: {first_line(error)}"
        ) from error


def _let_gloo_listen_at(address: str) -> None:
    """By default gloo listens where the host's name leads to, which others may not reach."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    name = "make_gloo_tcp_collectives"
    # JAX has imported this module. Before jaxlib 0.6.1 the module has another name, and gloo keeps
    # to its default.
    jaxlib = sys.modules.get("jaxlib._jax")
    make = getattr(jaxlib, name, None)
    if make is not None:
        setattr(jaxlib, name, functools.partial(make, hostname=host))


def shard_map(function: Callable[..., Any], *, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """An older JAX's check of what is the same on all ranks does not know all our operations."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    older = importlib.import_module("jax.experimental.shard_map").shard_map
    return older(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False)


def varying(values: Any, axes: tuple[str, ...]) -> Any:
    """`values` typed as if they differed between ranks, where a type says that."""
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
    """The profiler, without Python's own calls, and as `device` needs it.

    A compiler for TPUs that knows no such settings is asked for none. Raises MeasuringError
    UNAVAILABLE where the profiler does not start: it would leave out the device without an error.
    """
    try:
        _start(folder, _OF_DEVICE.get(device, {}))
    except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as refused:
        try:
            _start(folder, {})
        except (jax.errors.JaxRuntimeError, RuntimeError, ValueError):
            said = first_line(refused)
            raise unavailable(f"JAX's profiler does not start: {said}") from refused
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
