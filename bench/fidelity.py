"""Compare busbw's time of an all-reduce with the time of a loop that was written by hand.

Launches of the same loop differ by 5 to 35 %, so busbw and the loop are interleaved within each of
several processes. Both times are estimated in the same way, as the slope between a short chain and
a long chain, with the same number of iterations.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw.model.case import Case
from busbw.model.launch import MeasurementPlan
from busbw.model.words import MIB
from busbw.worker.backends.base import Backend
from busbw.worker.sampling import PhaseTimer, Sampler, launch_time_s

from .loops import LOOPS, Loop
from .processes import run_members

PAYLOADS = ("1K", "64K", "1M", "16M", "128M")
RANKS = (2, 4)
ALLOCATIONS = 4
# Even numbers, because half of the pairs begin with busbw.
PAIRS = 6
LARGE_PAIRS = 4
LARGE_BYTES = 16 * MIB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    payloads, frameworks = ",".join(PAYLOADS), ",".join(LOOPS)
    parser.add_argument(
        "--processes", type=int, default=5, help="processes for each table (default: 5)"
    )
    parser.add_argument("--payloads", default=payloads, help=f"default: {payloads}")
    parser.add_argument("--frameworks", default=frameworks, help=f"default: {frameworks}")
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for each framework and number of ranks, as Markdown."""
    payloads, frameworks = options.payloads.split(","), options.frameworks.split(",")
    results: dict[tuple[str, int], list[Any]] = {}
    for _, framework, ranks in itertools.product(range(options.processes), frameworks, RANKS):
        print("fidelity:", framework, ranks, *payloads, file=sys.stderr, flush=True)
        request = {"task": "fidelity", "framework": framework, "device": "cpu", "ranks": ranks}
        request |= {"payloads": payloads, "allocations": ALLOCATIONS}
        with tempfile.TemporaryDirectory() as folder:
            results.setdefault((framework, ranks), []).extend(run_members([request], Path(folder)))
    for (framework, ranks), processes in results.items():
        yield from ("", f"### {framework}, {ranks} ranks, {len(processes)} processes", "")
        yield from ("| payload | busbw, us | busbw / loop (range) |", "|---|---|---|")
        for payload in payloads:
            yield _table_row(payload, [process[payload] for process in processes])


def _table_row(payload: str, results: Sequence[Mapping[str, float]]) -> str:
    busbw_us = 1e6 * statistics.median(result["busbw_s"] for result in results)
    ratios = [result["ratio"] for result in results]
    ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    return f"| {payload} | {busbw_us:.4g} | {ratio} |"


def compare(
    backend: Backend, case: Case, make_loop: Callable[[int, int], Loop], allocations: int
) -> dict[str, float]:
    """Measure `case` with busbw and with a loop, and return their times and ratio.

    Args:
        backend: The back end of busbw.
        case: The case to measure.
        make_loop: Makes the loop for a payload in bytes and a number of ranks.
        allocations: How often the memory of both is allocated. Memory that is allocated first can
            be up to 8 % faster, so busbw and the loop take turns.

    Returns:
        ``busbw_s`` and ``by_hand_s`` are the times of an all-reduce in seconds. ``ratio`` is the
        median of busbw's time divided by the loop's time. The program that ran last before a
        measurement still has its data in the caches, and is up to 25 % faster at 16M. So times are
        added up over two successive pairs, which begin with the loop and with busbw.

    """
    pairs = [
        pair
        for number in range(allocations)
        for pair in _measure_pairs(backend, case, make_loop, is_busbw_first=bool(number % 2))
    ]
    busbw_s, loop_s = zip(*pairs)
    return {
        "ratio": statistics.median(
            (first[0] + second[0]) / (first[1] + second[1])
            for first, second in zip(pairs[::2], pairs[1::2])
        ),
        "busbw_s": launch_time_s(busbw_s),
        "by_hand_s": launch_time_s(loop_s),
    }


def _measure_pairs(
    backend: Backend, case: Case, make_loop: Callable[[int, int], Loop], *, is_busbw_first: bool
) -> Iterator[tuple[float, float]]:
    """Allocate the memory of busbw and of a loop once, and yield pairs of their times in seconds.

    Busbw's time is the first of a pair. The memory of busbw is allocated first if `is_busbw_first`.
    """
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(backend.prepare_program(case)) if is_busbw_first else None
        loop = make_loop(case.payload_bytes, case.ranks)
        program = program or stack.enter_context(backend.prepare_program(case))
        sampler = Sampler(
            program, MeasurementPlan(), backend.now_s, PhaseTimer(backend.now_s), backend.all_gather
        )
        sampler.warm_up_and_calibrate()
        while not sampler.has_enough_samples:
            sampler.take_sample()
        iterations = sampler.finish().iterations
        _measure_loop_s(loop, iterations)
        for number in range(LARGE_PAIRS if case.payload_bytes >= LARGE_BYTES else PAIRS):
            if number % 2:
                busbw_s, loop_s = (
                    _measure_busbw_s(sampler, iterations),
                    _measure_loop_s(loop, iterations),
                )
            else:
                loop_s, busbw_s = (
                    _measure_loop_s(loop, iterations),
                    _measure_busbw_s(sampler, iterations),
                )
            yield busbw_s, loop_s


def _measure_busbw_s(sampler: Sampler, iterations: int) -> float:
    """Run busbw's program, and return the time of an all-reduce in seconds."""
    short_s, long_s = sampler.time_short_and_long_chain(iterations)
    return (long_s - short_s) / (iterations - sampler.program.shortest_chain_iterations)


def _measure_loop_s(loop: Loop, iterations: int) -> float:
    """Run a loop, and return the time of an all-reduce in seconds."""
    loop.write_input()
    short_s = _time_call_s(loop, loop.shortest_iterations)
    if loop.shortest_iterations:
        loop.write_input()
    return (_time_call_s(loop, iterations) - short_s) / (iterations - loop.shortest_iterations)


def _time_call_s(loop: Loop, iterations: int) -> float:
    """Return the time of a call of a loop in seconds."""
    begin_s = time.perf_counter()
    loop.run(iterations)
    return time.perf_counter() - begin_s
