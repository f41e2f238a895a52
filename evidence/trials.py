"""Trials of a simulation, drawn each by its number alone: several processes can share them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trials:
    """`count` trials in `processes` processes."""

    count: int
    processes: int = 1

    def run(self, one: Callable[[int], T]) -> Iterator[T]:
        """What `one` says of each trial, by its number from 0 on, in order.

        Several processes need a `one` that can be pickled.
        """
        if self.processes == 1:
            yield from map(one, range(self.count))
            return
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, mp_context=fresh) as pool:
            yield from pool.map(one, range(self.count))
