"""Where the all-reduce inside a training step loses time against the bare one, piece by piece.

On the CPU the all-reduce takes longer inside a step than alone, at payloads that fit into a cache.
The variants of `bench.variants` are in between: each adds one more part of a step. They take turns
in random order, and each turn records the all-reduce's own time from the profiler on the rank that
arrives last, which does not wait. Ratios are to the bare chain of the same turn. The position of
the buffers in memory differs between processes and is fixed for the lifetime of one, so there are
several processes; `python -m bench.step` prints one's.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from bench.opened import opened, printed, spread
from busbw.model.case import Case
from busbw.model.launch import Plan
from busbw.model.words import MIB
from busbw.worker import device_clock
from busbw.worker.backends.base import AbstractBackend, AbstractProgram
from busbw.worker.sampling import LEAST_SAMPLES, Phases, Sampled, Sampler

PAYLOADS = "1M,4M,16M"
RANKS = (2, 4)
TURNS = 3
# In the table, by the name of the variant.
NAMES = {
    "fresh": "freshly written",
    "touched": "as many bytes as the step between",
    "product": "that, written by a product",
    "step": "the step",
}

# Seconds of each turn by variant, one of which is the bare one.
Found = Mapping[str, Sequence[float]]


def lines(processes: int) -> Iterator[str]:
    """A table for each number of ranks, as Markdown."""
    # Ranks in turn, so that the machine's state affects them alike.
    launches = [
        {ranks: printed(__name__, f"--ranks={ranks}") for ranks in RANKS} for _ in range(processes)
    ]
    for ranks in RANKS:
        yield from ("", f"### the step, jax, {ranks} ranks, {processes} processes", "")
        yield from table([launch[ranks] for launch in launches])


def table(launches: Sequence[Mapping[str, Found]]) -> Iterator[str]:
    """A row for each payload: the bare time, and each variant's ratios to it by turn."""
    yield f"| payload | bare, us | {' | '.join(NAMES.values())} |"
    yield "|---" * (2 + len(NAMES)) + "|"
    for payload in launches[0]:
        found = [launch[payload] for launch in launches]
        cells = [payload, spread([1e6 * one for turns in found for one in turns["bare"]], ".4g")]
        for name in NAMES:
            pairs = [pair for turns in found for pair in zip(turns[name], turns["bare"])]
            cells.append(spread([seconds / bare for seconds, bare in pairs], ".2f"))
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """One process: seconds of each turn by variant, by payload, as JSON."""
    parser = argparse.ArgumentParser(prog="bench.step", description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--payloads", default=PAYLOADS, help=f"default: {PAYLOADS}")
    options = parser.parse_args()
    backend, cases = opened("jax", options.ranks, options.payloads.split(","))
    print(json.dumps({text: _turns(backend, case) for text, case in cases.items()}))


def _turns(backend: AbstractBackend, case: Case) -> Found:
    # Only now: what opens the back end may start the process anew, before JAX is imported.
    from bench.variants import variants

    found: dict[str, list[float]] = defaultdict(list)
    order = random.Random(case.payload_bytes)
    with variants(backend, case) as made:
        for turn in range(1 + TURNS):
            for name in order.sample(sorted(made), len(made)):
                seconds = _last_s(backend, *made[name])
                # The first turn warms up.
                if turn:
                    found[name].append(seconds)
    return found


def _last_s(backend: AbstractBackend, case: Case, program: AbstractProgram) -> float:
    """Seconds of the all-reduce on the rank that comes last, by the profiler."""
    sampler = Sampler(program, Plan(), time.perf_counter, Phases(time.perf_counter))
    # As many in a call that a turn takes some tens of milliseconds.
    iterations = 32 if case.payload_bytes <= MIB else 16
    chain = Sampled(iterations=iterations, samples_s=())
    found = device_clock.record(backend, case, sampler, chain, LEAST_SAMPLES)
    return found.over_ranks_s["fastest"]


if __name__ == "__main__":
    main()
