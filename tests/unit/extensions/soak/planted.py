"""A soak of a real JAX program on CPU devices into whose result a fault is planted.

``python -m tests.unit.extensions.soak.planted FAULT COLLECTIVE N...`` prints for each iteration N
a line of JSON: the WrongElement that was found, and what was planted, as rank, element and bit.
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
from busbw.extensions.soak.worker import soak
from busbw.extensions.soak.worker_words import ChainProgram
from busbw.model.case import Spec
from busbw.model.launch import LaunchId, Plan
from busbw.model.words import Device
from busbw.worker.backends.jax.backend import JaxBackend
from busbw.worker.backends.values import Values, memory_at
from busbw.worker.measure import MeasureSession

RANKS, PAYLOAD_BYTES, SECONDS = 4, 4096, 60.0
Memories = Mapping[int, Any]
Planted = tuple[int, "int | None", "int | None"]


class Faults:
    """Changes the words of each rank's result; `before` are the words of the iteration before."""

    def __init__(self, values: Values, draw: int, before: Memories, chance: random.Random) -> None:
        self._values, self._draw, self._before, self._chance = values, draw, before, chance

    def flip(self, memories: Memories) -> Planted:
        """Flip a bit of a rank's result."""
        rank = self._chance.choice(sorted(memories))
        element, bit = self._chance.randrange(memories[rank].size), self._chance.randrange(32)
        memories[rank][element] ^= np.uint32(1 << bit)
        return rank, element, bit

    def stale(self, memories: Memories) -> Planted:
        """Keep a chunk of the result before."""
        rank = self._chance.choice(sorted(memories))
        count = memories[rank].size // 4
        begin = self._chance.randrange(memories[rank].size - count)
        memories[rank][begin : begin + count] = self._before[rank][begin : begin + count]
        return rank, None, None

    def swap(self, memories: Memories) -> Planted:
        """Exchange the results of two ranks."""
        rank, other = sorted(self._chance.sample(sorted(memories), 2))
        copy = memories[rank].copy()
        memories[rank][:], memories[other][:] = memories[other], copy
        return rank, None, None

    def miss(self, memories: Memories) -> Planted:
        """Leave the input of one rank out of the sum of another."""
        rank, other = self._chance.sample(sorted(memories), 2)
        sums = memories[rank].view(np.float32)
        missing = np.resize(self._values.start(other, self._draw)[0], sums.size)
        sums[:] = sums.astype(np.float64) - missing
        return rank, None, None

    def early(self, memories: Memories) -> Planted:
        """Leave zeros at the end; the first wrong word is the first that is not zero anyway."""
        rank = self._chance.choice(sorted(memories))
        begin = self._chance.randrange(memories[rank].size - 16)
        first = begin + int(np.flatnonzero(memories[rank][begin:])[0])
        memories[rank][begin:] = 0
        return rank, first, None


def _memories_of(chain: Any) -> Memories:
    shards = chain._shards(chain.result)
    return {
        rank: memory_at(shard.unsafe_buffer_pointer(), shard.size, np.uint32)
        for rank, shard in shards.items()
    }


def planting(fault: str, number: int, planted: list[Planted]) -> Callable[[ChainProgram], None]:
    """Return a `ChainProgram.run` that plants a fault in iteration `number`."""
    run, iterations = ChainProgram.run, itertools.count(1)
    before: dict[int, Any] = {}
    chance = random.Random(number)

    def run_and_plant(program: ChainProgram) -> None:
        run(program)
        memories, iteration = _memories_of(program.chain), next(iterations)
        if iteration == number:
            faults = Faults(program.chain.values, program.draw, before, chance)
            planted.append(getattr(faults, fault)(memories))
        elif iteration == number - 1:
            before.update({rank: words.copy() for rank, words in memories.items()})

    return run_and_plant


def main(fault: str, name: str, *numbers: str) -> None:
    backend = JaxBackend(Device.CPU, RANKS)
    probes = [backend.probe()]
    target = grid.choose_target(device=Device.CPU, ranks=None, probes=probes, named=["jax"])
    collective = COLLECTIVES[name]
    spec = Spec(
        framework="jax",
        payload_bytes=PAYLOAD_BYTES,
        collective=name,
        reduce_op="sum" if collective.reduce_ops else "none",
        placement=collective.placements[0],
    )
    case, key = grid.resolve(spec, target), target.key(spec)
    session, run = MeasureSession(backend, LaunchId(name="x")), ChainProgram.run
    for number in map(int, numbers):
        planted: list[Planted] = []
        ChainProgram.run = planting(fault, number, planted)  # type: ignore[assignment, method-assign]
        request = {"case": case, "plan": Plan(), "key": key, "seconds": SECONDS}
        reply = soak(session, {name: wire.to_json(value) for name, value in request.items()})
        ChainProgram.run = run  # type: ignore[method-assign]
        print(json.dumps({"mismatch": wire.to_json(reply.mismatch), "planted": planted}))


if __name__ == "__main__":
    main(*sys.argv[1:])
