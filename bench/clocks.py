"""Host's and device's clock side by side, and what lies between them, event by event.

`python -m bench.clocks --framework=tensorflow`. For each payload the framework's profiler records
chains, and the host's clock times the very same calls. On every rank a collective begins some
time after the one before it began: that period is what the host sees. The part of it in which the
collective itself ran is what the device's clock sees; the rest is a gap, in which the framework
does something else: in TensorFlow each round of a loop hands values from op to op, in JAX next to
nothing. Where period and host agree, host - device is the gap.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.opened import opened
from busbw.metrics import parse_payloads
from busbw.model import Case, Plan, payload_text
from busbw.worker import device_clock
from busbw.worker.sampling import Phases, Sampler, launch_time_s

CALLS = 12
LEAST_ITERATIONS = 8
_COLUMNS = "{:>8} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10} {:>12}"


def main() -> None:
    """One line for each payload; times in microseconds."""
    parser = argparse.ArgumentParser(prog="bench.clocks")
    parser.add_argument("--framework", default="jax", choices=("jax", "tensorflow"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--payloads", default="1M,4M,16M,64M")
    options = parser.parse_args()
    door = opened(options.framework, options.ranks)
    print(f"{options.framework}, {options.ranks} ranks, microseconds for one all-reduce")
    head = ("payload", "host", "device", "host/device", "period", "gap", "first", "(dev+gap)/host")
    print(_COLUMNS.format(*head))
    for size in parse_payloads(options.payloads):
        print(_line(door.backend, door.case(size)), flush=True)


def _line(backend: Any, case: Case) -> str:
    with backend.prepared(case) as program:
        sampler = Sampler(program, Plan(), time.perf_counter, Phases(time.perf_counter))
        sampler.begin()
        while not sampler.enough:
            sampler.turn()
        slopes = sampler.sampled()
        iterations = max(LEAST_ITERATIONS, slopes.iterations)
        with tempfile.TemporaryDirectory() as folder:
            with backend.recording(Path(folder)) as reader:
                elapsed_s = [sampler.timed(iterations) for _ in range(CALLS)]
            found = device_clock.read(reader, case.collective)
    recorded = device_clock.times(found, ranks=case.ranks, calls=CALLS, iterations=iterations)
    period_s, gap_s, first_s = _between(found, iterations)
    short_s = slopes.short_s or 0.0
    host_s = launch_time_s([sampler.slope(one, iterations, short_s) for one in elapsed_s])
    device_s = launch_time_s(recorded.samples_s)
    times = (f"{1e6 * one:.1f}" for one in (host_s, device_s))
    rest = (f"{1e6 * one:.1f}" for one in (period_s, gap_s, first_s))
    accounted = f"{(device_s + gap_s) / host_s:.2f}"
    text = payload_text(case.payload_bytes)
    return _COLUMNS.format(text, *times, f"{host_s / device_s:.2f}", *rest, accounted)


def _between(found: Any, iterations: int) -> tuple[float, float, float]:
    """Medians over ranks and calls: begin to begin, end to begin, and a call's first collective."""
    by_rank = defaultdict(list)
    for one in sorted(found, key=lambda one: one.start_s):
        by_rank[one.rank].append(one)
    periods, gaps, firsts = [], [], []
    for ones in by_rank.values():
        for place, (one, after) in enumerate(itertools.pairwise(ones)):
            if place % iterations == 0:
                firsts.append(one.duration_s)
            elif (place + 1) % iterations:
                periods.append(after.start_s - one.start_s)
                gaps.append(after.start_s - one.start_s - one.duration_s)
    return statistics.median(periods), statistics.median(gaps), statistics.median(firsts)


if __name__ == "__main__":
    main()
