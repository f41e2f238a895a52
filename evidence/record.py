"""Records sessions of launch pairs on this machine, for the corpus: the real driver and worker.

Unchanged code on both sides, or a delay injected into the candidate's program. Judges nothing.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from busbw import grid, metrics
from busbw.driver import schedules
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.executor import probe as driver_probe
from busbw.driver.local import LocalTransport
from busbw.driver.schedules import AbstractSchedule, Pairs, Stack
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model import launch
from busbw.model.case import Spec
from busbw.model.launch import Measurement, Plan, Run
from busbw.model.machine import Probe
from busbw.model.words import Device, Extra
from busbw.workloads.collective import Collective

from . import corpus
from .corpus import Injection, RecordedLaunch, RecordedSession, Side

FRAMEWORK, RANKS = "jax", 4
# In a launch at most, and the time for them, of both sides.
_SAMPLES, _BUDGET_S = 40, 1.5


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", type=Path, default=corpus.FOLDER / f"cpu{corpus.SUFFIX}")
    parser.add_argument("--sessions", type=int, default=1, help="how many of each share")
    parser.add_argument(
        "--shares",
        type=lambda text: [float(word) for word in text.split(",")],
        default=[0.0],
        help="comma list: how much more time the candidate is to take; 0: unchanged code",
    )
    parser.add_argument(
        "--at", type=metrics.parse_payload, metavar="SIZE", help="the one payload made slow"
    )
    parser.add_argument("--payloads", default="4K,16K,64K,256K,1M,4M,16M")
    parser.add_argument("--launches", type=int, default=12, help="pairs in a session")


def sessions(options: argparse.Namespace) -> Iterator[str]:
    """Record what is asked and append it to the file: a line for each session."""
    for _ in range(options.sessions):
        for share in options.shares:
            injection = None
            if share:
                injection = Injection(kind="delay", share=share, payload_bytes=options.at)
            session = _session(options, injection)
            corpus.append(session, options.file)
            yield f"{session.id}: {share:g}, {session.wall_s:.0f} s, load {session.load:.2f}"


def _session(options: argparse.Namespace, injection: Injection | None) -> RecordedSession:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    load, begun_s = os.getloadavg()[0], time.monotonic()
    bundle = Bundle()
    try:
        executor = Executor(LocalTransport(bundle))
        pairing, probe = _pairs(options, injection, executor)
        pairing.run()
    finally:
        bundle.remove()
    pairs = zip(*(pairing.measurements(side) for side in schedules.Side))
    found = next(iter(pairing.cases.values()))
    return RecordedSession(
        id=f"{now}+{injection.share:g}" if injection else now,
        recorded=now,
        kind="injected" if injection else "aa",
        injection=injection,
        framework=FRAMEWORK,
        ranks=found.ranks,
        load=load,
        versions=dict(probe.versions),
        wall_s=round(time.monotonic() - begun_s, 1),
        launches=tuple(one for pair in pairs for one in _launches(*pair)),
        machine=f"{found.device_kind}, {found.cores} cores",
    )


def _pairs(
    options: argparse.Namespace, asked: Injection | None, executor: Executor
) -> tuple[AbstractSchedule, Probe]:
    environment = FRAMEWORKS[FRAMEWORK].environment
    starter = Starter(
        python=sys.executable, framework=FRAMEWORK, device="cpu", ranks=RANKS, defaults=environment
    )
    stack = Stack(starters={FRAMEWORK: starter})
    slower = stack
    if asked is not None:
        payloads = (asked.payload_bytes,) if asked.payload_bytes else ()
        extra = launch.Injection(extra=Extra.DELAY, share=asked.share, payloads=payloads)
        slower = replace(stack, injection=extra)
    probe = driver_probe(starter, executor)
    target = grid.choose_target(device=Device.CPU, ranks=RANKS, probes=[probe], named=[FRAMEWORK])
    specs = [
        Spec(framework=FRAMEWORK, workload=Collective(), payload_bytes=size, ranks=RANKS)
        for size in metrics.parse_payloads(options.payloads)
    ]
    seed = int.from_bytes(os.urandom(4), "big")
    found = Pairs(
        executor=executor,
        cases={grid.resolve(spec, target): target.key(spec) for spec in specs},
        plan=Plan(launches=options.launches, samples=_SAMPLES, budget_s=_BUDGET_S, seed=seed),
        stacks={schedules.Side.REFERENCE: stack, schedules.Side.CANDIDATE: slower},
        shared=True,
    )
    return found, probe


def _launches(reference: Measurement, candidate: Measurement) -> Iterator[RecordedLaunch]:
    """Raises CorpusError where a launch failed: such a session is no evidence."""
    for failure in (*reference.failures, *candidate.failures):
        raise corpus.CorpusError(f"{reference.case.name}: {failure.message}")
    for number, (before, now) in enumerate(zip(reference.runs, candidate.runs), 1):
        # Both have as many samples, but for the turn in which the first had enough.
        count = min(len(before.samples_s), len(now.samples_s))
        yield RecordedLaunch(
            number=number,
            payload_bytes=reference.case.payload_bytes,
            first="reference" if number % 4 < 2 else "candidate",
            reference=_side(before, count),
            candidate=_side(now, count),
        )


def _side(run: Run, count: int) -> Side:
    """Its first `count` samples, with four significant digits."""
    return Side(samples_s=tuple(float(f"{time_s:.4g}") for time_s in run.samples_s[:count]))
