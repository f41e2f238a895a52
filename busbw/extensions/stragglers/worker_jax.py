"""Time the chips of a process with JAX: a computation, a copy, and the links between chips.

A slow link between two hosts is also timed in each direction, by a permute in which only one host
sends.

All links between chips are timed by a single program. The program has two permutes, one for each
direction, along each axis of the torus of chips. So every link carries a payload in each direction.
The profiler times each permute at the receiving rank.
"""

from __future__ import annotations

import functools
import math
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives.base import source_target_pairs_of
from busbw.model.words import DeviceClass
from busbw.worker.backends import hlo
from busbw.worker.backends.base import unavailable
from busbw.worker.backends.jax.collective import lower_over_mesh, put_on_devices
from busbw.worker.backends.recordings import end_by_begin_instruction_of
from busbw.worker.serve import request_value

from .worker import ChipTimes

# The calls of a round, which take about a tenth of a second. So a chip that is throttled from time
# to time, such as by the quota of a cgroup, is throttled in every round.
_CALLS_PER_ROUND = 16
# The number of matrix products in a call. On a CPU (True) the matrices and copies are smaller.
_PRODUCTS_PER_CALL = 32
_MATRIX_SIDE = {True: 256, False: 4096}
_COPIED_BYTES = {True: 2**22, False: 2**28}
# The smallest extent of an axis along which the last chip is linked to the first chip, by device.
_MIN_WRAPPING_EXTENTS = {
    "TPU v4": 4,
    "TPU v5": 4,
    "TPU v5p": 4,
    "TPU7x": 4,
    "TPU v5 lite": 16,
    "TPU v6 lite": 16,
}


def measure_chips(worker: Any, request: Mapping[str, Any]) -> ChipTimes:
    """Return the times of a computation and a copy on each chip of this process, and of TPU links.

    All chips of the process are timed at the same time. The links between chips are timed on TPUs
    only.

    Args:
        worker: The MeasuringWorker, whose back end is a JaxBackend.
        request: The request. The value `rounds` is how often each chip and link is timed, and
            `payload_bytes` is the number of bytes that each link carries.

    Raises:
        MeasuringError: The profiler's recording of the links lacks a permute.

    """
    backend = worker.backend
    rounds = request_value(request, "rounds", int)
    chips = {
        str(rank): chip
        for rank, chip in enumerate(backend.devices())
        if chip.process_index == jax.process_index()
    }
    is_cpu = backend.devices()[0].platform == "cpu"
    dtype = jnp.float32 if is_cpu else jnp.bfloat16
    side = _MATRIX_SIDE[is_cpu]
    # Products of these numbers neither grow nor vanish.
    matrix = jnp.full((side, side), 1 / side, dtype)
    copied = jnp.ones(_COPIED_BYTES[is_cpu] // 4, dtype)
    times_s: ChipTimes = {
        "computing": _time_calls_on_chips(chips, _multiply, matrix, rounds),
        "copying": _time_calls_on_chips(chips, jnp.negative, copied, rounds),
    }
    # On other devices the time of a permute includes the wait for a late sender, so that it does
    # not show a slow link.
    if backend.device is DeviceClass.TPU:
        payload_bytes = request_value(request, "payload_bytes", int)
        times_s |= _time_links(backend, chips, rounds, payload_bytes)
    return times_s


def measure_directions(worker: Any, request: Mapping[str, Any]) -> ChipTimes:
    """Time a payload that only one of two hosts sends, first the one host and then the other.

    The first half of the devices belongs to the first host. Each device of the sending host sends
    `payload_bytes` to a device of the other host, `rounds` times without a break; both numbers are
    in the `request`. Returns the seconds of a payload under the quantity ``sending``, by the
    numbers of the sending and the receiving host: ``0 1`` and ``1 0``. These are the times of this
    process: a sender may end before its payload has arrived, so the time of the receiver counts.
    `worker` is a MeasuringWorker with a JaxBackend.
    """
    rounds = request_value(request, "rounds", int)
    devices = worker.backend.devices()
    mesh = Mesh(np.array(devices), ("ranks",))
    sharding = NamedSharding(mesh, PartitionSpec("ranks"))
    shape = (len(devices), request_value(request, "payload_bytes", int) // 4)
    payload = put_on_devices(np.zeros(shape, np.float32), sharding)
    pairs = list(zip(range(len(devices) // 2), range(len(devices) // 2, len(devices))))
    times_s: dict[str, tuple[float, ...]] = {}
    for direction, step in (("0 1", 1), ("1 0", -1)):
        send = functools.partial(
            jax.lax.ppermute, axis_name="ranks", perm=[p[::step] for p in pairs]
        )
        compiled = lower_over_mesh(mesh, send, [payload], sharding.spec).compile()
        jax.block_until_ready(compiled(payload))
        begun_s = time.perf_counter()
        for _ in range(rounds):
            jax.block_until_ready(compiled(payload))
        times_s[direction] = ((time.perf_counter() - begun_s) / rounds,)
    return {"sending": times_s}


def find_links(devices: Sequence[Any]) -> dict[str, list[tuple[int, int]]]:
    """Return the links between neighbouring chips, by axis and direction, such as ``x+``.

    A link is a pair of ranks: the sender and the receiver. For example, three chips in a line have
    the links ``{"x+": [(0, 1), (1, 2)], "x-": [(1, 0), (2, 1)]}``. The rank of a device is its
    index in `devices`. Devices without coordinates form a line along the axis ``x``. If a chip has
    two devices (cores), its cores are linked along the axis ``core``.
    """
    positions = [
        (*(getattr(device, "coords", None) or (rank,)), getattr(device, "core_on_chip", 0))
        for rank, device in enumerate(devices)
    ]
    ranks = {position: rank for rank, position in enumerate(positions)}
    pairs_by_direction: dict[str, list[tuple[int, int]]] = {}
    for axis, coordinates in enumerate(zip(*positions)):
        extent = max(coordinates) + 1
        min_wrapping_extent = _MIN_WRAPPING_EXTENTS.get(devices[0].device_kind, math.inf)
        wraps_around = extent == 2 or (extent >= min_wrapping_extent and extent % 4 == 0)
        # No chip is at the coordinate `extent`, so an axis that does not wrap around has no link
        # from its last chip to its first chip.
        cycle = extent if wraps_around else extent + 1
        name = "core" if axis == len(positions[0]) - 1 else "xyz"[axis]
        # Along an axis of two chips, both directions are the same links.
        for direction, step in (("+", 1), ("-", -1))[: 1 if extent == 2 else 2]:
            targets = [
                (*place[:axis], (place[axis] + step) % cycle, *place[axis + 1 :])
                for place in positions
            ]
            pairs = [(rank, ranks[t]) for rank, t in enumerate(targets) if t in ranks]
            if pairs:
                pairs_by_direction[f"{name}{direction}"] = pairs
    return pairs_by_direction


def lower_permutes(devices: Sequence[Any], payload_bytes: int = 2**20) -> Any:
    """Return a lowered JAX program in which each rank sends a payload over all its links at once.

    The links are those of `find_links`: to the neighbours along each axis, in both directions.

    Args:
        devices: The devices of all processes.
        payload_bytes: The bytes that a rank sends over each link.

    Returns:
        A `jax.stages.Lowered`, which can be compiled.

    """
    mesh = Mesh(np.array(devices), ("chips",))
    sharding = NamedSharding(mesh, PartitionSpec("chips"))
    directions = find_links(devices)
    shape = (len(devices), payload_bytes // 4)
    rows = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding) for _ in directions]

    def permute_all(*payloads: Any) -> tuple[Any, ...]:
        return tuple(
            jax.lax.ppermute(payload, "chips", pairs)
            for payload, pairs in zip(payloads, directions.values())
        )

    return lower_over_mesh(mesh, permute_all, rows, (sharding.spec,) * len(directions))


def _multiply(matrix: Any) -> Any:
    """Multiply a square matrix by itself _PRODUCTS_PER_CALL times, and return the last product.

    The products run one after the other, because each product is a factor of the next product.
    """
    return jax.lax.fori_loop(0, _PRODUCTS_PER_CALL, lambda _, product: product @ matrix, matrix)


def _time_calls_on_chips(
    chips: Mapping[str, Any], function: Callable[..., Any], argument: jax.Array, round_count: int
) -> dict[str, tuple[float, ...]]:
    """Call a function on all chips at once, and return the seconds of each round on each chip.

    A round is _CALLS_PER_ROUND calls, one after the other. All chips begin a round at the same
    time.

    Args:
        chips: The JAX devices, by their rank as text, such as ``5``.
        function: The function, which is compiled with `jax.jit`.
        argument: The argument of each call.
        round_count: The number of rounds.

    Returns:
        The seconds of each round, by the rank of the chip.

    """
    call = jax.jit(function)
    barrier = threading.Barrier(len(chips))
    arguments = [jax.device_put(argument, chip) for chip in chips.values()]

    def time_rounds(values: Any) -> tuple[float, ...]:
        jax.block_until_ready(call(values))
        times_s = []
        for _ in range(round_count):
            barrier.wait()
            begun_s = time.perf_counter()
            for _ in range(_CALLS_PER_ROUND):
                jax.block_until_ready(call(values))
            times_s.append(time.perf_counter() - begun_s)
        return tuple(times_s)

    with ThreadPoolExecutor(len(chips)) as threads:
        return dict(zip(chips, threads.map(time_rounds, arguments)))


def _time_links(
    backend: Any, chip_ranks: Collection[str], round_count: int, payload_bytes: int
) -> ChipTimes:
    """Send payloads over all links, and return the times of the links that end at this process.

    The profiler times the program of `lower_permutes`.

    Args:
        backend: The JaxBackend, whose profiler is used.
        chip_ranks: The ranks of the chips of this process, as text, such as ``5``.
        round_count: How often the program runs.
        payload_bytes: The bytes that each link carries in each direction.

    Returns:
        The seconds of each run, by direction, such as ``the link x+``, and then by the ranks of the
        sender and the receiver, such as ``4 5``.

    Raises:
        MeasuringError: The recording of the profiler lacks a permute.

    """
    devices = backend.devices()
    lowered = lower_permutes(devices, payload_bytes)
    compiled = lowered.compile()
    module = hlo.read_module(compiled.as_text())
    sharding = compiled.input_shardings[0][0]
    shapes = jax.tree.leaves(lowered.args_info)
    payloads = [put_on_devices(np.zeros(row.shape, np.float32), sharding) for row in shapes]
    jax.block_until_ready(compiled(*payloads))
    with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
        with backend.record_profile(Path(folder)) as read:
            for _ in range(round_count):
                jax.block_until_ready(compiled(*payloads))
        permutes = read(end_by_begin_instruction_of(module))
    times_s: ChipTimes = {}
    for direction, pairs in find_links(devices).items():
        instructions = {
            line.name
            for line in module.collectives()
            if {*(source_target_pairs_of(line.text) or ())} == {*pairs}
        }
        rows: dict[int, list[float]] = {}
        for permute in permutes:
            if permute.instruction in instructions:
                rows.setdefault(permute.device, []).append(permute.duration_s)
        if len(rows) != len(chip_ranks) or {*map(len, rows.values())} != {round_count}:
            raise unavailable(f"the recording does not hold every permute along {direction}")
        row_by_chip = {rank: tuple(rows[device]) for rank, device in zip(chip_ranks, sorted(rows))}
        times_s[f"the link {direction}"] = {
            f"{sender} {receiver}": row_by_chip[str(receiver)]
            for sender, receiver in pairs
            if str(receiver) in row_by_chip
        }
    return times_s
