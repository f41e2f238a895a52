"""Time the chips of a process with JAX: a computation, a copy, and the links between chips.

All links are timed by a single program, with a permute along each axis of the chips' torus in each
direction. So every link carries a payload in each direction. The profiler times each permute at the
receiving rank.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives.base import source_target_pairs_of
from busbw.model.words import DeviceClass
from busbw.worker.backends.base import RecordingReader, unavailable
from busbw.worker.backends.hlo import module as hlo
from busbw.worker.backends.jax import versions
from busbw.worker.backends.jax.backend import JaxBackend
from busbw.worker.backends.jax.collective import put_on_devices
from busbw.worker.backends.recordings import map_begin_to_end

from .worker import ChipTimes

# The (sender, receiver) ranks of the links in a direction.
RankPairs = tuple[tuple[int, int], ...]
# The seconds of each round, for each rank of a process.
RowsByRank = tuple[tuple[float, ...], ...]
# Records a `with` block with the profiler, into files in a folder.
RecordProfile = Callable[[Path], AbstractContextManager[RecordingReader]]

# The calls of a round, which take about a tenth of a second. So a chip that is throttled from time
# to time, such as by the quota of a cgroup, is throttled in every round.
_CALLS_PER_ROUND = 16
# The number of matrix products in a call. On a CPU (True) the matrices and copies are smaller.
_PRODUCTS_PER_CALL = 32
_MATRIX_SIDE, _COPIED_BYTES = {True: 256, False: 4096}, {True: 2**22, False: 2**28}
_AXES = "xyz"
# The smallest extent of an axis along which the last chip is linked to the first chip, by device.
_MIN_WRAPPING_EXTENTS = {
    "TPU v4": 4,
    "TPU v5": 4,
    "TPU v5p": 4,
    "TPU7x": 4,
    "TPU v5 lite": 16,
    "TPU v6 lite": 16,
}


def measure_chips(backend: JaxBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Time each chip of this process and, on TPUs, the links to these chips.

    Each chip and link is timed in each of the `rounds`, and each link carries `payload_bytes`.
    Raises MeasuringError if the recording of the links lacks a permute.
    """
    # On other devices the time of a permute includes the wait for a late sender, so that it does
    # not show a slow link.
    record_profile = backend.record_profile if backend.device is DeviceClass.TPU else None
    return time_chips(backend.devices(), rounds, payload_bytes, record_profile)


def find_links(devices: Sequence[Any]) -> dict[str, RankPairs]:
    """Map each axis and direction, such as ``x+``, to the (sender, receiver) ranks of its links.

    The rank of a device is its index in `devices`. Devices without coordinates form a ring along
    the axis ``x``. If a chip has two devices (cores), the cores are linked along the axis ``core``.
    """
    coordinates = [_coordinates(device, rank) for rank, device in enumerate(devices)]
    ranks = {position: rank for rank, position in enumerate(coordinates)}
    pairs_by_direction: dict[str, RankPairs] = {}
    for axis, extents in enumerate(zip(*coordinates)):
        extent = max(extents) + 1
        # The last coordinate is the number of the core on its chip.
        name = "core" if 0 < axis == len(coordinates[0]) - 1 else _AXES[axis]
        for direction in (1, -1) if extent > 2 else (1,):
            is_closed = extent >= 2 and (extent == 2 or _wraps_around(devices[0], extent))
            pairs: RankPairs = ()
            for position, rank in ranks.items():
                target = position[axis] + direction
                if is_closed or 0 <= target < extent:
                    other = (*position[:axis], target % extent, *position[axis + 1 :])
                    pairs += ((rank, ranks[other]),) if other in ranks else ()
            if pairs:
                pairs_by_direction[f"{name}{'+' if direction > 0 else '-'}"] = pairs
    return pairs_by_direction


def _coordinates(device: Any, rank: int) -> tuple[int, ...]:
    """Return the coordinates of a device's chip, and the number of the core on the chip.

    A device without coordinates has its `rank` as its only coordinate.
    """
    coords = getattr(device, "coords", None)
    if coords is None:
        return (rank,)
    return (*coords, getattr(device, "core_on_chip", 0))


def _wraps_around(device: Any, extent: int) -> bool:
    """Return whether the last chip along an axis of this extent is linked to the first chip.

    All chips are of the same kind as `device`.
    """
    is_ring = getattr(device, "coords", None) is None
    min_extent = _MIN_WRAPPING_EXTENTS.get(device.device_kind, math.inf)
    return is_ring or (extent >= min_extent and extent % 4 == 0)


def lower_permutes(devices: Sequence[Any], payload_bytes: int = 2**20) -> Any:
    """Lower a program in which each rank sends `payload_bytes` over each of its links at once.

    The links are those of `find_links`: to the neighbours along each axis, in both directions.
    `devices` are the devices of all processes. Returns a `jax.stages.Lowered`, which can be
    compiled.
    """
    mesh = Mesh(np.array(devices), ("chips",))
    directions = find_links(devices)
    shape = (len(devices), payload_bytes // 4)
    rows = jax.ShapeDtypeStruct(
        shape, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("chips"))
    )

    def permute_all(*payloads: Any) -> tuple[Any, ...]:
        return tuple(
            jax.lax.ppermute(payload, "chips", pairs)
            for payload, pairs in zip(payloads, directions.values())
        )

    spec = (PartitionSpec("chips"),) * len(directions)
    mapped = versions.shard_map(permute_all, mesh=mesh, in_specs=spec, out_specs=spec)
    return jax.jit(mapped).lower(*([rows] * len(directions)))


def time_chips(
    devices: Sequence[Any], rounds: int, payload_bytes: int, record_profile: RecordProfile | None
) -> ChipTimes:
    """Time a computation, a copy and then the links, on all chips of this process at once.

    Args:
        devices: The devices of all processes.
        rounds: How often each chip and link is timed.
        payload_bytes: The bytes that each link carries in each direction.
        record_profile: Records the program of the links with the profiler; None to time no links.

    Raises:
        MeasuringError: The recording lacks a permute.

    """
    ranks = [r for r, device in enumerate(devices) if device.process_index == jax.process_index()]
    chips, links = [devices[rank] for rank in ranks], find_links(devices)
    is_cpu = chips[0].platform == "cpu"
    links_s = {}
    compute_s = _time_together(chips, _multiply, (_MATRIX_SIDE[is_cpu],) * 2, rounds)
    copy_s = _time_together(chips, jnp.negative, (_COPIED_BYTES[is_cpu] // 4,), rounds)
    if record_profile and links:
        links_s = _time_permutes(devices, len(chips), rounds, payload_bytes, record_profile)
    return ChipTimes(
        ranks=tuple(ranks),
        compute_s=compute_s,
        copy_s=copy_s,
        links_s=links_s,
        pairs=links,
    )


def _multiply(matrix: Any) -> Any:
    """Multiply a square matrix by itself _PRODUCTS_PER_CALL times, and return the last product.

    The products run one after the other, because each product is a factor of the next.
    """
    return jax.lax.fori_loop(0, _PRODUCTS_PER_CALL, lambda _, product: product @ matrix, matrix)


def _time_together(
    devices: Sequence[Any], function: Callable[..., Any], shape: tuple[int, ...], rounds: int
) -> RowsByRank:
    """Return the seconds of each round of calls of `function`, in a row for each device.

    A round is _CALLS_PER_ROUND calls on an array of this `shape`. All devices begin a round at the
    same time.
    """
    call = jax.jit(function)
    barrier = threading.Barrier(len(devices))
    dtype = jnp.float32 if devices[0].platform == "cpu" else jnp.bfloat16
    # Products of these numbers neither grow nor vanish.
    numbers = [jax.device_put(jnp.full(shape, 1 / shape[0], dtype), device) for device in devices]

    def time_rounds(values: Any) -> tuple[float, ...]:
        jax.block_until_ready(call(values))
        times_s = []
        for _ in range(rounds):
            barrier.wait()
            begun_s = time.perf_counter()
            for _ in range(_CALLS_PER_ROUND):
                jax.block_until_ready(call(values))
            times_s.append(time.perf_counter() - begun_s)
        return tuple(times_s)

    with ThreadPoolExecutor(len(devices)) as threads:
        return tuple(threads.map(time_rounds, numbers))


def _time_permutes(
    devices: Sequence[Any],
    local_chip_count: int,
    rounds: int,
    payload_bytes: int,
    record_profile: RecordProfile,
) -> dict[str, RowsByRank]:
    """Run the permutes of all directions under the profiler, and return their times by direction.

    The times of a direction are the seconds of each round, in a row for each chip of this process.

    Args:
        devices: The devices of all processes.
        local_chip_count: The number of chips of this process.
        rounds: How often each permute runs.
        payload_bytes: The bytes that each link carries in each direction.
        record_profile: Records the permutes with the profiler.

    Raises:
        MeasuringError: The recording lacks a permute.

    """
    lowered = lower_permutes(devices, payload_bytes)
    compiled = lowered.compile()
    module = hlo.read_module(compiled.as_text())
    direction_of = {
        frozenset[tuple[int, ...]](pairs): name for name, pairs in find_links(devices).items()
    }
    pairs_of = {
        line.name: frozenset(source_target_pairs_of(line.text) or ())
        for line in module.collectives()
    }
    # A permute with other pairs of ranks than those of a direction is left out.
    directions = {
        name: direction_of[pairs] for name, pairs in pairs_of.items() if pairs in direction_of
    }
    sharding = compiled.input_shardings[0][0]
    shapes = jax.tree.leaves(lowered.args_info)
    payloads = [put_on_devices(np.zeros(row.shape, np.float32), sharding) for row in shapes]
    jax.block_until_ready(compiled(*payloads))
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        with record_profile(Path(folder)) as read:
            for _ in range(rounds):
                jax.block_until_ready(compiled(*payloads))
        durations_s_by_direction: dict[str, dict[int, list[float]]] = {
            direction: {} for direction in directions.values()
        }
        for permute in read(map_begin_to_end(module)):
            direction = directions.get(permute.instruction)
            if direction is not None:
                durations_s_by_direction[direction].setdefault(permute.device, []).append(
                    permute.duration_s
                )
    for direction, rows in durations_s_by_direction.items():
        if len(rows) != local_chip_count or {len(row) for row in rows.values()} != {rounds}:
            raise unavailable(f"the recording does not hold every permute along {direction}")
    return {
        direction: tuple(tuple(rows[device]) for device in sorted(rows))
        for direction, rows in durations_s_by_direction.items()
    }
