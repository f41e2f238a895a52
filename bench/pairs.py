"""One process: busbw's own samples and those of a loop written by hand, by turns.

Started by `bench.fidelity`; prints one JSON document. Both sides have the same estimator, the
slope between a short chain and a long one, and the same number of iterations.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import loops
from bench.opened import opened
from busbw.metrics import parse_payload
from busbw.model import MIB, Case, Plan, payload_text
from busbw.worker.sampling import Phases, Sampler, launch_time_s

TURNS = 4
PAIRS = 5
LARGE_PAIRS = 3
LARGE_BYTES = 16 * MIB


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
    """All turns; which side gets its memory first decides up to 8 %, so that takes turns, too."""
    found = [_turn(backend, case, others=others, own_first=bool(n % 2)) for n in range(TURNS)]
    own = [one for turn in found for one in turn.own_s]
    theirs = {
        name: [one for turn in found for one in turn.theirs_s[name]] for name in found[0].theirs_s
    }
    reference = next(iter(theirs.values()))
    return {
        "payload": payload_text(case.payload_bytes),
        "iterations": found[0].iterations,
        "ratio": statistics.median(mine / other for mine, other in zip(own, reference)),
        "own_s": launch_time_s(own),
        "theirs_s": {name: launch_time_s(times) for name, times in theirs.items()},
    }


@dataclass(frozen=True)
class Turn:
    """Samples of buffers that were laid out once, in the order of the pairs."""

    iterations: int
    own_s: list[float]
    theirs_s: dict[str, list[float]]


def _turn(backend: Any, case: Case, *, others: bool, own_first: bool) -> Turn:
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(backend.prepared(case)) if own_first else None
        reference = loops.REFERENCE[case.framework](case.payload_bytes, case.ranks)
        made = loops.OTHERS if others else ()
        beside = [other(case.payload_bytes, case.ranks) for other in made]
        program = program or stack.enter_context(backend.prepared(case))
        sampler = Sampler(program, Plan(), time.perf_counter, Phases(time.perf_counter))
        sampler.begin()
        while not sampler.enough:
            sampler.turn()
        turn = Turn(
            sampler.sampled().iterations, [], {one.name: [] for one in (reference, *beside)}
        )
        for one in (reference, *beside):
            _slope(one, turn.iterations)
        large = case.payload_bytes >= LARGE_BYTES
        for number in range(LARGE_PAIRS if large else PAIRS):
            sides: list[Callable[[], None]] = [
                lambda: turn.own_s.append(_own_slope(sampler, turn.iterations)),
                lambda: turn.theirs_s[reference.name].append(_slope(reference, turn.iterations)),
            ]
            for side in sides if number % 2 else reversed(sides):
                side()
            for one in beside:
                turn.theirs_s[one.name].append(_slope(one, turn.iterations))
    return turn


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
