"""A soak of a real JAX program on CPU devices into whose result a fault is planted.

``python -m tests.unit.extensions.soak.planted FAULT COLLECTIVE N...`` prints for each iteration N
a line of JSON: the text on the wrong result, and what was planted, as rank, element and bit.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from busbw import grid, wire
from busbw.collectives import COLLECTIVES
from busbw.extensions.soak.worker_comparison import soak
from busbw.extensions.soak.worker_jax import JaxSoakProgram
from busbw.model.case import CaseSpec
from busbw.model.launch import LaunchId, MeasurementPlan
from busbw.model.words import DeviceClass
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.jax.backend import JaxBackend
from busbw.worker.backends.values import array_at_address
from busbw.worker.host import HostMemoryGuard
from busbw.worker.measure import MeasuringWorker

RANKS, PAYLOAD_BYTES, SECONDS = 4, 4096, 60.0
Memories = Mapping[int, Any]
Planted = tuple[int, "int | None", "int | None"]


def _memories_of(chain: Any) -> Memories:
    shards = chain._shards_by_rank(chain.result)
    return {
        rank: array_at_address(shard.unsafe_buffer_pointer(), shard.size, np.uint32)
        for rank, shard in shards.items()
    }


def planting(
    fault: str, number: int, planted: list[Planted]
) -> Callable[[JaxSoakProgram], tuple[int, ...]]:
    """Return a `JaxSoakProgram.hash_results` that first plants a fault in iteration `number`.

    The fault is in the result of a rank: ``flip`` changes a bit, and ``stale`` keeps a part of the
    result before.
    """
    hash_results, iterations = JaxSoakProgram.hash_results, itertools.count(1)
    before: dict[int, Any] = {}
    chance = random.Random(number)

    def plant_and_hash(program: JaxSoakProgram) -> tuple[int, ...]:
        memories, iteration = _memories_of(program.program), next(iterations)
        if iteration == number:
            rank = chance.choice(sorted(memories))
            words, element, bit = memories[rank], None, None
            if fault == "flip":
                element, bit = chance.randrange(words.size), chance.randrange(32)
                words[element] ^= np.uint32(1 << bit)
            else:
                part = slice(0, words.size // 4)
                words[part] = before[rank][part]
            planted.append((rank, element, bit))
        elif iteration == number - 1:
            before.update({rank: words.copy() for rank, words in memories.items()})
        return hash_results(program)

    return plant_and_hash


def main(fault: str, name: str, *numbers: str) -> None:
    backend = JaxBackend(DeviceClass.CPU, RANKS)
    target = grid.choose_devices(
        device=DeviceClass.CPU, ranks=None, probes=[backend.probe()], named_frameworks=["jax"]
    )
    collective = COLLECTIVES[name]
    spec = CaseSpec(
        framework="jax",
        payload_bytes=PAYLOAD_BYTES,
        collective=name,
        reduce_op="sum" if collective.reduce_ops else "none",
        placement=collective.placements[0],
    )
    case, key = grid.resolve_case(spec, target)
    worker = MeasuringWorker(backend, LaunchId(name="x"), HostMemoryGuard(backend.all_gather))
    hash_results = JaxSoakProgram.hash_results
    for number in map(int, numbers):
        planted: list[Planted] = []
        JaxSoakProgram.hash_results = planting(fault, number, planted)  # type: ignore[assignment, method-assign]
        request = {"case": case, "plan": MeasurementPlan(), "key": key, "seconds": SECONDS}
        problem = ""
        try:
            soak(worker, {name: wire.to_json(value) for name, value in request.items()})
        except MeasuringError as error:
            problem = error.to_failure(worker.launch).message
        JaxSoakProgram.hash_results = hash_results  # type: ignore[method-assign]
        print(json.dumps({"problem": problem, "planted": planted}))


if __name__ == "__main__":
    main(*sys.argv[1:])
