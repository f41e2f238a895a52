"""One process: the variants of one number of ranks, by turns. Started by `bench.step`.

Prints one JSON document: seconds of each turn by variant, by payload bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict

from bench.opened import Opened, opened
from bench.step import iterations_of
from busbw.metrics import parse_payloads
from busbw.model import Case, Plan
from busbw.worker import device_clock
from busbw.worker.backends.base import AbstractProgram
from busbw.worker.sampling import LEAST_SAMPLES, Phases, Sampled, Sampler


def main() -> None:
    """Measure every payload given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--payloads", required=True)
    parser.add_argument("--turns", type=int, required=True)
    options = parser.parse_args()
    door = opened("jax", options.ranks)
    found = {
        size: _turns(door, door.case(size), options.turns)
        for size in parse_payloads(options.payloads)
    }
    print(json.dumps(found))


def _turns(door: Opened, case: Case, turns: int) -> dict[str, list[float]]:
    # Not before the door is open: it may start the process anew, for which JAX comes too early.
    from bench.variants import variants

    found: dict[str, list[float]] = defaultdict(list)
    order = random.Random(case.payload_bytes)
    with variants(door.backend, case, lambda bare: _last_s(door, case, bare)) as made:
        for turn in range(1 + turns):
            for name in order.sample(sorted(made), len(made)):
                seconds = _last_s(door, *made[name])
                # The first turn warms up.
                if turn:
                    found[name].append(seconds)
    return found


def _last_s(door: Opened, case: Case, program: AbstractProgram) -> float:
    """Seconds of the all-reduce on the rank that comes last, by the profiler."""
    sampler = Sampler(program, Plan(), time.perf_counter, Phases(time.perf_counter))
    chain = Sampled(iterations=iterations_of(case.payload_bytes), samples_s=())
    found = device_clock.record(door.backend, case, sampler, chain, LEAST_SAMPLES)
    return found.over_ranks_s["fastest"]


if __name__ == "__main__":
    main()
