"""Time single chips, which compute and copy, and the links between them.

One program has a permute along each axis of the chips' torus in each direction, so that every link
carries one payload each way. The profiler times the permutes at the ranks that receive.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives.base import pairs_of
from busbw.model.words import Device
from busbw.worker.backends.base import Reader, unavailable
from busbw.worker.backends.hlo import module as hlo
from busbw.worker.backends.jax import versions
from busbw.worker.backends.jax.backend import JaxBackend
from busbw.worker.backends.jax.collective import put_on_devices
from busbw.worker.backends.recordings import timed_instructions

from .worker import ChipTimes

Pairs = list[tuple[int, int]]
# Seconds by rank of a process and by round.
Times = tuple[tuple[float, ...], ...]
Recording = Callable[[Path], AbstractContextManager[Reader]]

# The calls of a round: about a tenth of a second of computing, so that a chip that is throttled
# from time to time, such as by the quota of a cgroup, is throttled in every round.
_CALLS = 16
# Products of square matrices in a call, the side of these, and the bytes copied; fewer on a CPU.
_PRODUCTS = 32
_SIDE, _COPIED = {True: 256, False: 4096}, {True: 2**22, False: 2**28}
_AXES = "xyz"
# Chips whose slices are closed to a torus, and the extents of an axis from which that is so.
_CLOSED = {"TPU v4": 4, "TPU v5": 4, "TPU v5p": 4, "TPU7x": 4, "TPU v5 lite": 16, "TPU v6 lite": 16}


def chips(backend: JaxBackend, rounds: int, payload_bytes: int) -> ChipTimes:
    """Time each chip of this process or, with a payload, the links to it."""
    devices = backend.devices()
    if not payload_bytes:
        return time_chips(devices, rounds)
    if backend.device is not Device.TPU:
        # A rank that waits for a late sender is as long in its permute: no link is told by that.
        return ChipTimes(ranks=())
    return time_links(devices, rounds, payload_bytes, backend.record_profile)


def links(devices: Sequence[Any]) -> dict[str, Pairs]:
    """Return the senders and receivers by axis and direction, such as ``x+``, of every link.

    Chips without coordinates are a ring. Two devices of one chip have a link of their own.
    """
    places = [_place(device, rank) for rank, device in enumerate(devices)]
    ranks = {place: rank for rank, place in enumerate(places)}
    pairs_by_way: dict[str, Pairs] = {}
    for axis, extents in enumerate(zip(*places)):
        size = max(extents) + 1
        for way in (1, -1) if size > 2 else (1,):
            is_closed = size >= 2 and (size == 2 or _is_closed(devices[0], size))
            pairs = []
            for place, rank in ranks.items():
                target = place[axis] + way
                if is_closed or 0 <= target < size:
                    other = (*place[:axis], target % size, *place[axis + 1 :])
                    pairs += [(rank, ranks[other])] if other in ranks else []
            if pairs:
                pairs_by_way[_name(axis, len(places[0]), way)] = pairs
    return pairs_by_way


def _place(device: Any, rank: int) -> tuple[int, ...]:
    coords = getattr(device, "coords", None)
    if coords is None:
        return (rank,)
    return (*coords, getattr(device, "core_on_chip", 0))


def _name(axis: int, axes: int, way: int) -> str:
    word = "core" if axes > 1 and axis == axes - 1 else _AXES[axis]
    return f"{word}{'+' if way > 0 else '-'}"


def _is_closed(device: Any, size: int) -> bool:
    """Return whether the last chip along an axis is linked to the first."""
    if getattr(device, "coords", None) is None:
        return True
    least = _CLOSED.get(device.device_kind, math.inf)
    return size >= least and size % 4 == 0


def step(devices: Sequence[Any], payload_bytes: int = 2**20) -> Any:
    """Lower all permutes in one program: a payload for each rank and each way."""
    mesh = Mesh(np.array(devices), ("chips",))
    ways = links(devices)
    shape = (len(devices), payload_bytes // 4)
    rows = jax.ShapeDtypeStruct(
        shape, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("chips"))
    )

    def permute_all(*payloads: Any) -> tuple[Any, ...]:
        return tuple(
            jax.lax.ppermute(payload, "chips", pairs)
            for payload, pairs in zip(payloads, ways.values())
        )

    spec = (PartitionSpec("chips"),) * len(ways)
    mapped = versions.shard_map(permute_all, mesh=mesh, in_specs=spec, out_specs=spec)
    return jax.jit(mapped).lower(*([rows] * len(ways)))


def time_chips(devices: Sequence[Any], rounds: int) -> ChipTimes:
    """Time this process's chips, each of which computes and copies while the others do."""
    local, ranks = _local(devices)
    is_cpu = local[0].platform == "cpu"
    return ChipTimes(
        ranks=ranks,
        compute_s=_time_together(local, _multiply, (_SIDE[is_cpu],) * 2, rounds),
        copy_s=_time_together(local, jnp.negative, (_COPIED[is_cpu] // 4,), rounds),
    )


def time_links(
    devices: Sequence[Any], rounds: int, payload_bytes: int, recording: Recording
) -> ChipTimes:
    """Time the links to this process's chips, from all chips that have places in a torus."""
    local, ranks = _local(devices)
    return ChipTimes(
        ranks=ranks,
        links_s=_time_permutes(devices, len(local), rounds, payload_bytes, recording),
        pairs={way: tuple(pairs) for way, pairs in links(devices).items()},
    )


def _local(devices: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Return the chips of this process, and their ranks."""
    ranks = tuple(
        rank for rank, device in enumerate(devices) if device.process_index == jax.process_index()
    )
    return [devices[rank] for rank in ranks], ranks


def _multiply(matrix: Any) -> Any:
    return jax.lax.fori_loop(0, _PRODUCTS, lambda _, product: product @ matrix, matrix)


def _time_together(
    devices: Sequence[Any], function: Callable[..., Any], shape: tuple[int, ...], rounds: int
) -> Times:
    """Time each round of each chip; all chips begin a round at the same time."""
    call, barrier = jax.jit(function), threading.Barrier(len(devices))
    dtype = jnp.float32 if devices[0].platform == "cpu" else jnp.bfloat16
    # Products of these numbers neither grow nor vanish.
    numbers = [jax.device_put(jnp.full(shape, 1 / shape[0], dtype), device) for device in devices]

    def time_rounds(values: Any) -> tuple[float, ...]:
        jax.block_until_ready(call(values))
        times_s = []
        for _ in range(rounds):
            barrier.wait()
            begun_s = time.perf_counter()
            for _ in range(_CALLS):
                jax.block_until_ready(call(values))
            times_s.append(time.perf_counter() - begun_s)
        return tuple(times_s)

    with ThreadPoolExecutor(len(devices)) as threads:
        return tuple(threads.map(time_rounds, numbers))


def _time_permutes(
    devices: Sequence[Any], local: int, rounds: int, payload_bytes: int, recording: Recording
) -> dict[str, Times]:
    """Read the times of each way from a recording, for the `local` ranks of this process."""
    if len(devices) < 2:
        return {}
    lowered = step(devices, payload_bytes)
    compiled = lowered.compile()
    module = hlo.read_module(compiled.as_text())
    ways = _ways(module, links(devices))
    sharding = compiled.input_shardings[0][0]
    shapes = jax.tree.leaves(lowered.args_info)
    payloads = [put_on_devices(np.zeros(row.shape, np.float32), sharding) for row in shapes]
    jax.block_until_ready(compiled(*payloads))
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        with recording(Path(folder)) as read:
            for _ in range(rounds):
                jax.block_until_ready(compiled(*payloads))
        rows_by_way: dict[str, dict[int, list[float]]] = {way: {} for way in ways.values()}
        for permute in read(timed_instructions(module)):
            way = ways.get(permute.instruction)
            if way is not None:
                rows_by_way[way].setdefault(permute.device, []).append(permute.duration_s)
    for way, rows in rows_by_way.items():
        if len(rows) != local or {len(row) for row in rows.values()} != {rounds}:
            raise unavailable(f"the recording does not hold every permute along {way}")
    return {
        way: tuple(tuple(rows[device]) for device in sorted(rows))
        for way, rows in rows_by_way.items()
    }


def _ways(module: hlo.Module, links: Mapping[str, Pairs]) -> dict[str, str]:
    """Return the way of each permute of a compiled program, by its instruction's name."""
    way_of = {frozenset[tuple[int, ...]](pairs): way for way, pairs in links.items()}
    permutes = {line.name: pairs_of(line.text) or () for line in module.collectives()}
    ways = {name: way_of.get(frozenset(pairs)) for name, pairs in permutes.items()}
    return {name: way for name, way in ways.items() if way is not None}
