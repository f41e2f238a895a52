"""Single chips and the links between them: what a chip computes and copies, what each link carries.

One program has a permute along each axis of the chips' torus in each direction, so that every link
carries one payload each way; the times are those of the ranks that receive, from the profiler.
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
from busbw.model.launch import Chips
from busbw.model.words import Device
from busbw.program import hlo

from ..base import Reader, unavailable
from ..recordings import timed_instructions
from . import versions
from .backend import JaxBackend
from .program import placed

Pairs = list[tuple[int, int]]

# The calls of a round: about a tenth of a second of computing, so that a chip that is throttled
# by turns, such as by the quota of a cgroup, is so in every round.
_CALLS = 16
# Products of square matrices in a call, the side of these, and the bytes copied; fewer on a CPU.
_PRODUCTS = 32
_SIDE, _COPIED = {True: 256, False: 4096}, {True: 2**22, False: 2**28}
_AXES = "xyz"
# Chips whose slices are closed to a torus, and the extents of an axis from which that is so.
_CLOSED = {"TPU v4": 4, "TPU v5": 4, "TPU v5p": 4, "TPU7x": 4, "TPU v5 lite": 16, "TPU v6 lite": 16}


def chips(backend: JaxBackend, rounds: int, payload_bytes: int) -> Chips:
    """Measure each chip of this process or, with a payload, the links to it."""
    devices = backend.devices()
    if not payload_bytes:
        return measured(devices, rounds)
    if backend.device is not Device.TPU:
        # Who waits for a late sender is as long in its permute: no link would be told by that.
        return Chips(ranks=())
    return carried(devices, rounds, payload_bytes, backend.recording)


def links(devices: Sequence[Any]) -> dict[str, Pairs]:
    """Which rank sends to which, by axis and direction, such as ``x+``; every link once each way.

    Chips without coordinates are a ring. Two devices of one chip have a link of their own.
    """
    places = [_place(one, rank) for rank, one in enumerate(devices)]
    at = {place: rank for rank, place in enumerate(places)}
    found: dict[str, Pairs] = {}
    for axis, extents in enumerate(zip(*places)):
        size = max(extents) + 1
        for way in (1, -1) if size > 2 else (1,):
            closed = size >= 2 and (size == 2 or _is_closed(devices[0], size))
            pairs = []
            for place, rank in at.items():
                to = place[axis] + way
                if closed or 0 <= to < size:
                    other = (*place[:axis], to % size, *place[axis + 1 :])
                    pairs += [(rank, at[other])] if other in at else []
            if pairs:
                found[_name(axis, len(places[0]), way)] = pairs
    return found


def _place(device: Any, rank: int) -> tuple[int, ...]:
    coords = getattr(device, "coords", None)
    if coords is None:
        return (rank,)
    return (*coords, getattr(device, "core_on_chip", 0))


def _name(axis: int, axes: int, way: int) -> str:
    word = "core" if axes > 1 and axis == axes - 1 else _AXES[axis]
    return f"{word}{'+' if way > 0 else '-'}"


def _is_closed(device: Any, size: int) -> bool:
    """Whether the last chip along an axis is linked to the first."""
    if getattr(device, "coords", None) is None:
        return True
    least = _CLOSED.get(device.device_kind, math.inf)
    return size >= least and size % 4 == 0


def step(devices: Sequence[Any], payload_bytes: int = 2**20) -> Any:
    """All permutes in one program, lowered: a payload for each rank and each way."""
    mesh = Mesh(np.array(devices), ("chips",))
    ways = links(devices)
    shape = (len(devices), payload_bytes // 4)
    rows = jax.ShapeDtypeStruct(
        shape, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("chips"))
    )

    def all_ways(*held: Any) -> tuple[Any, ...]:
        return tuple(
            jax.lax.ppermute(one, "chips", pairs) for one, pairs in zip(held, ways.values())
        )

    spec = (PartitionSpec("chips"),) * len(ways)
    mapped = versions.shard_map(all_ways, mesh=mesh, in_specs=spec, out_specs=spec)
    return jax.jit(mapped).lower(*([rows] * len(ways)))


def measured(devices: Sequence[Any], rounds: int) -> Chips:
    """Of this process's chips, each of which computes and copies while the others do."""
    own, ranks = _own(devices)
    is_cpu = own[0].platform == "cpu"
    return Chips(
        ranks=ranks,
        compute_s=_at_once(own, _computed, (_SIDE[is_cpu],) * 2, rounds),
        copy_s=_at_once(own, jnp.negative, (_COPIED[is_cpu] // 4,), rounds),
    )


def carried(
    devices: Sequence[Any],
    rounds: int,
    payload_bytes: int,
    recording: Callable[[Path], AbstractContextManager[Reader]],
) -> Chips:
    """The links to this process's chips, of all chips that have places in a torus."""
    own, ranks = _own(devices)
    return Chips(
        ranks=ranks,
        links_s=_carried(devices, len(own), rounds, payload_bytes, recording),
        pairs={way: tuple(pairs) for way, pairs in links(devices).items()},
    )


def _own(devices: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The chips of this process, and their ranks."""
    numbered = [one for one in enumerate(devices) if one[1].process_index == jax.process_index()]
    ranks, own = zip(*numbered)
    return list(own), ranks


def _computed(values: Any) -> Any:
    return jax.lax.fori_loop(0, _PRODUCTS, lambda _, held: held @ values, values)


def _at_once(
    devices: Sequence[Any], function: Callable[..., Any], shape: tuple[int, ...], rounds: int
) -> tuple[tuple[float, ...], ...]:
    """Seconds by round, of each chip; all of them begin a round together."""
    call, together = jax.jit(function), threading.Barrier(len(devices))
    dtype = jnp.float32 if devices[0].platform == "cpu" else jnp.bfloat16
    # Products of it neither grow nor vanish.
    held = [jax.device_put(jnp.full(shape, 1 / shape[0], dtype), one) for one in devices]

    def own(values: Any) -> tuple[float, ...]:
        jax.block_until_ready(call(values))
        found = []
        for _ in range(rounds):
            together.wait()
            begun_s = time.perf_counter()
            for _ in range(_CALLS):
                jax.block_until_ready(call(values))
            found.append(time.perf_counter() - begun_s)
        return tuple(found)

    with ThreadPoolExecutor(len(devices)) as threads:
        return tuple(threads.map(own, held))


def _carried(
    devices: Sequence[Any],
    own: int,
    rounds: int,
    payload_bytes: int,
    recording: Callable[[Path], AbstractContextManager[Reader]],
) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Seconds by way and round, of each rank of this process, from the recording."""
    if len(devices) < 2:
        return {}
    lowered = step(devices, payload_bytes)
    compiled = lowered.compile()
    module = hlo.read(compiled.as_text())
    ways = _ways(module, links(devices))
    shapes = jax.tree.leaves(lowered.args_info)
    held = [
        placed(np.zeros(one.shape, np.float32), compiled.input_shardings[0][0]) for one in shapes
    ]
    jax.block_until_ready(compiled(*held))
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        with recording(Path(folder)) as read:
            for _ in range(rounds):
                jax.block_until_ready(compiled(*held))
        found: dict[str, dict[int, list[float]]] = {way: {} for way in ways.values()}
        for permute in read(timed_instructions(module)):
            way = ways.get(permute.instruction)
            if way is not None:
                found[way].setdefault(permute.device, []).append(permute.duration_s)
    kept: dict[str, tuple[tuple[float, ...], ...]] = {}
    for way, rows in found.items():
        if len(rows) != own or {len(row) for row in rows.values()} != {rounds}:
            raise unavailable(f"the recording does not hold every permute along {way}")
        kept[way] = tuple(tuple(rows[device]) for device in sorted(rows))
    return kept


def _ways(module: hlo.Module, links: Mapping[str, Pairs]) -> dict[str, str]:
    """Return the way of each permute of a compiled program, by its instruction's name."""
    way_of = {frozenset[tuple[int, ...]](pairs): way for way, pairs in links.items()}
    permutes = {line.bare_name: pairs_of(line.text) or () for line in module.collectives()}
    ways = {name: way_of.get(frozenset(pairs)) for name, pairs in permutes.items()}
    return {name: way for name, way in ways.items() if way is not None}
