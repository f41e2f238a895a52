"""What the processes of a group tell each other between calls, over the runtime that is measured.

Never while a clock runs. A value is passed as whole words, so that all processes get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.model import Device

from .program import EVERYWHERE

Words = Sequence[int]


class Exchange:
    """Words of every process to every process, by one device of each."""

    def __init__(self, device: Device | None) -> None:
        first: dict[int, Any] = {}
        for one in jax.devices(device.value if device else None):
            first.setdefault(one.process_index, one)
        mesh = Mesh(np.array([first[index] for index in sorted(first)]), ("processes",))
        self._each = NamedSharding(mesh, PartitionSpec("processes"))
        self._everywhere = NamedSharding(mesh, EVERYWHERE)
        self._programs: dict[int, Callable[[jax.Array], jax.Array]] = {}

    def __call__(self, words: Words) -> list[list[int]]:
        shape = (self._each.mesh.size, len(words))
        own = np.array([words], np.uint32)
        rows = jax.make_array_from_callback(shape, self._each, lambda index: own)
        if len(words) not in self._programs:
            # What is laid out otherwise afterwards is a collective between.
            jitted = jax.jit(lambda rows: rows, out_shardings=self._everywhere)
            self._programs[len(words)] = jitted.lower(rows).compile()
        (shard,) = self._programs[len(words)](rows).addressable_shards
        found: list[list[int]] = np.asarray(shard.data).tolist()
        return found
