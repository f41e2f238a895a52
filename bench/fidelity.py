"""busbw's time per all-reduce over that of a loop written by hand, in several processes.

Launches of one and the same loop differ by 5 to 35 %, so the two take turns within a process:
`python -m bench.fidelity` prints one process's. Both sides have the same estimator, the slope
between a short chain and a long one, and the same number of iterations.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench import loops
from bench.opened import opened, printed, spread
from busbw.model.case import Case
from busbw.model.launch import Plan
from busbw.model.words import MIB
from busbw.worker.backends.base import AbstractBackend
from busbw.worker.sampling import Phases, Sampler, launch_time_s

PAYLOADS = ("1K", "64K", "1M", "16M", "128M")
RANKS = (2, 4)
FRAMEWORKS = ("jax", "tensorflow")
TURNS = 4
PAIRS = 5
LARGE_PAIRS = 3
LARGE_BYTES = 16 * MIB


def lines(processes: int) -> Iterator[str]:
    """A table of ratios for each framework and number of ranks, as Markdown."""
    found: dict[tuple[str, int], list[Any]] = {}
    for _ in range(processes):
        for framework in FRAMEWORKS:
            for ranks in RANKS:
                options = (f"--framework={framework}", f"--ranks={ranks}")
                found.setdefault((framework, ranks), []).append(printed(__name__, *options))
    for (framework, ranks), every in found.items():
        first, *others = every[0][PAYLOADS[0]]["theirs_s"]
        yield from ("", f"### {framework}, {ranks} ranks, {processes} processes", "")
        beside = "".join(f" | {name}" for name in others)
        yield f"| payload | busbw, us | busbw / {first} (least to most){beside} |"
        yield "|---" * (3 + len(others)) + "|"
        for payload in PAYLOADS:
            yield _row(payload, [process[payload] for process in every], others)


def _row(payload: str, found: Sequence[Any], others: Sequence[str]) -> str:
    ratios = [one["ratio"] for one in found]
    own_us = statistics.median(one["own_s"] for one in found) * 1e6
    cells = [payload, f"{own_us:.4g}", spread(ratios, ".3f")]
    cells += [
        spread([one["theirs_s"][name] / one["own_s"] for one in found], ".2f") for name in others
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """One process: busbw's own samples and those of the loops, by turns, as JSON by payload."""
    parser = argparse.ArgumentParser(prog="bench.fidelity", description=__doc__)
    parser.add_argument("--framework", required=True, choices=FRAMEWORKS)
    parser.add_argument("--ranks", type=int, required=True)
    options = parser.parse_args()
    backend, cases = opened(options.framework, options.ranks, PAYLOADS)
    made = loops.LOOPS[options.framework]
    print(json.dumps({text: pairs(backend, case, made) for text, case in cases.items()}))


def pairs(
    backend: AbstractBackend, case: Case, made: Sequence[loops.MakeLoop], turns: int = TURNS
) -> dict[str, Any]:
    """Compare `case` with the loops, the first one by its ratio.

    Which side gets its memory first decides up to 8 %, so that takes turns, too. In a group all
    processes do the same.
    """
    own: list[float] = []
    theirs: dict[str, list[float]] = defaultdict(list)
    for number in range(turns):
        _turn(backend, case, made, own, theirs, own_first=bool(number % 2))
    reference = next(iter(theirs.values()))
    return {
        "ratio": statistics.median(mine / other for mine, other in zip(own, reference)),
        "own_s": launch_time_s(own),
        "theirs_s": {name: launch_time_s(times) for name, times in theirs.items()},
    }


def _turn(
    backend: AbstractBackend,
    case: Case,
    types: Sequence[loops.MakeLoop],
    own: list[float],
    theirs: dict[str, list[float]],
    *,
    own_first: bool,
) -> None:
    """More samples, of buffers that are laid out once, in the order of the pairs."""
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(backend.prepared(case)) if own_first else None
        made = [make(case.payload_bytes, case.ranks) for make in types]
        program = program or stack.enter_context(backend.prepared(case))
        phases = Phases(time.perf_counter)
        sampler = Sampler(program, Plan(), time.perf_counter, phases, gathered=backend.gathered)
        sampler.begin()
        while not sampler.enough:
            sampler.turn()
        iterations = sampler.sampled().iterations
        reference, *beside = made
        for one in made:
            _slope(one, iterations)
        large = case.payload_bytes >= LARGE_BYTES
        for number in range(LARGE_PAIRS if large else PAIRS):
            sides: list[Callable[[], None]] = [
                lambda: own.append(_own_slope(sampler, iterations)),
                lambda: theirs[reference.name].append(_slope(reference, iterations)),
            ]
            for side in sides if number % 2 else reversed(sides):
                side()
            for one in beside:
                theirs[one.name].append(_slope(one, iterations))


def _own_slope(sampler: Sampler, iterations: int) -> float:
    short_s, long_s = sampler.pair(iterations)
    return (long_s - short_s) / (iterations - sampler.program.shortest)


def _slope(loop: loops.AbstractLoop, iterations: int) -> float:
    loop.fresh()
    short_s = _call_s(loop, loop.shortest)
    if loop.shortest:
        loop.fresh()
    return (_call_s(loop, iterations) - short_s) / (iterations - loop.shortest)


def _call_s(loop: loops.AbstractLoop, iterations: int) -> float:
    begun_s = time.perf_counter()
    loop.run(iterations)
    return time.perf_counter() - begun_s


if __name__ == "__main__":
    main()
