"""One process: busbw's own samples and those of a loop written by hand, by turns.

Started by `bench.fidelity`; prints one JSON document. Both sides have the same estimator, the
slope between a short chain and a long one, and the same number of iterations.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.opened import opened
from busbw.metrics import parse_payload
from busbw.model import Case, Plan, payload_text
from busbw.worker.phases import Phases
from busbw.worker.sampling import Sampler, launch_time_s

PAIRS = 12
LARGE_PAIRS = 6
LARGE = "16M"


def main() -> None:
    """Measure every payload given on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--payloads", required=True)
    parser.add_argument("--others", action="store_true")
    options = parser.parse_args()
    door = opened(options.framework, options.ranks)
    found = {
        text: _pairs(door.backend, door.case(parse_payload(text)), others=options.others)
        for text in options.payloads.split(",")
    }
    print(json.dumps(found))


def _pairs(backend: Any, case: Case, *, others: bool) -> dict[str, Any]:
    from bench import loops

    reference = loops.REFERENCE[case.framework](case.payload_bytes, case.ranks)
    beside = [other(case.payload_bytes, case.ranks) for other in loops.OTHERS] if others else []
    with backend.prepared(case) as program:
        sampler = Sampler(program, Plan(), time.perf_counter, Phases(time.perf_counter))
        iterations = sampler.slopes().iterations
        own: list[float] = []
        theirs: dict[str, list[float]] = {one.name: [] for one in (reference, *beside)}
        _slope(reference, iterations)
        large = case.payload_bytes >= parse_payload(LARGE)
        for number in range(LARGE_PAIRS if large else PAIRS):
            sides: list[Callable[[], None]] = [
                lambda: own.append(_own_slope(sampler, iterations)),
                lambda: theirs[reference.name].append(_slope(reference, iterations)),
            ]
            for side in sides if number % 2 else reversed(sides):
                side()
            for one in beside:
                theirs[one.name].append(_slope(one, iterations))
    ratios = [mine / other for mine, other in zip(own, theirs[reference.name])]
    return {
        "payload": payload_text(case.payload_bytes),
        "iterations": iterations,
        "ratio": statistics.median(ratios),
        "own_s": launch_time_s(own),
        "theirs_s": {name: launch_time_s(times) for name, times in theirs.items()},
    }


def _own_slope(sampler: Sampler, iterations: int) -> float:
    short_s, long_s = sampler.pair(iterations)
    return (long_s - short_s) / (iterations - sampler.program.shortest)


def _slope(loop: Any, iterations: int) -> float:
    if loop.shortest:
        loop.fresh()
        short_s = _call_s(loop, loop.shortest)
        loop.fresh()
    else:
        loop.fresh()
        short_s = _call_s(loop, 0)
    slope_s: float = (_call_s(loop, iterations) - short_s) / (iterations - loop.shortest)
    return slope_s


def _call_s(loop: Any, iterations: int) -> float:
    begun_s = time.perf_counter()
    loop.run(iterations)
    return time.perf_counter() - begun_s


if __name__ == "__main__":
    main()
