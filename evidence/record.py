"""Records sessions of launch pairs on this machine, for the corpus: the real driver and worker.

Unchanged code on both sides, or a delay injected into the candidate's program. Judges nothing.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from busbw import driver, grid, metrics
from busbw import model as words
from busbw.frameworks import FRAMEWORKS
from busbw.model import Case, Device, EnvironmentKey, Extra, Measurement, Plan, Run, Spec
from busbw.workloads import Collective

from . import corpus
from .corpus import First, Injection, Kind, RecordedLaunch, RecordedSession, Side

FRAMEWORK = "jax"


def main(arguments: Sequence[str]) -> None:
    """Record what is asked and append it to the file."""
    options = _parser().parse_args(arguments)
    for number in range(options.sessions):
        if number:
            time.sleep(options.pause_s)
        for share in options.shares:
            session = record(options, share)
            corpus.append(session, options.file)
            print(f"{session.id}: {share:g}, {session.wall_s:.0f} s, load {session.load:.2f}")


def record(options: argparse.Namespace, share: float) -> RecordedSession:
    """One session; the candidate is asked to take `share` more time."""
    injection = _injection(options, share)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    load, begun_s = os.getloadavg()[0], time.monotonic()
    bundle = driver.Bundle()
    try:
        executor = driver.Executor(driver.LocalTransport(bundle))
        pairing, probe = _pairs(options, injection, executor)
        pairing.run()
    finally:
        bundle.remove()
    pairs = zip(*(pairing.measurements(side) for side in driver.Side))
    found = next(iter(pairing.cases.values()))
    return RecordedSession(
        id=now if not share else f"{now}+{share:g}",
        recorded=now,
        kind=Kind.INJECTED if injection else Kind.AA,
        injection=injection,
        framework=FRAMEWORK,
        ranks=found.ranks,
        load=load,
        versions=probe.versions,
        wall_s=round(time.monotonic() - begun_s, 1),
        launches=tuple(one for pair in pairs for one in _launches(*pair)),
        machine=f"{found.device_kind}, {found.cores} cores",
    )


def _injection(options: argparse.Namespace, share: float) -> Injection | None:
    if not share:
        return None
    return Injection(kind=Extra.DELAY.value, share=share, payload_bytes=options.at)


def _pairs(
    options: argparse.Namespace, asked: Injection | None, executor: driver.Executor
) -> tuple[driver.AbstractSchedule, words.Probe]:
    starter = driver.Starter(
        python=sys.executable,
        framework=FRAMEWORK,
        device="cpu",
        ranks=options.ranks,
        defaults=FRAMEWORKS[FRAMEWORK].environment,
    )
    probe = driver.probe(starter, executor)
    injection = None
    if asked is not None:
        payloads = (asked.payload_bytes,) if asked.payload_bytes else ()
        injection = words.Injection(extra=Extra.DELAY, share=asked.share, payloads=payloads)
    found = driver.SCHEDULES["pairs"](
        executor=executor,
        cases=_cases(options, probe),
        plan=Plan(
            launches=options.launches,
            samples=options.samples,
            budget_s=options.budget_s,
            seed=int.from_bytes(os.urandom(4), "big"),
        ),
        stacks={
            side: driver.Stack(
                starters={FRAMEWORK: starter},
                injection=injection if side is driver.Side.CANDIDATE else None,
            )
            for side in driver.Side
        },
        shared=True,
    )
    return found, probe


def _cases(options: argparse.Namespace, probe: words.Probe) -> dict[Case, EnvironmentKey]:
    target = grid.choose_target(
        device=Device.CPU, ranks=options.ranks, probes=[probe], named=[FRAMEWORK]
    )
    sizes = metrics.parse_payloads(options.payloads)
    specs = [
        Spec(framework=FRAMEWORK, workload=Collective(), payload_bytes=size, ranks=options.ranks)
        for size in sizes
    ]
    return {grid.resolve(spec, target): target.key(spec) for spec in specs}


def _launches(reference: Measurement, candidate: Measurement) -> list[RecordedLaunch]:
    """Raises CorpusError where a launch failed: such a session is no evidence."""
    failures = (*reference.failures, *candidate.failures)
    if failures:
        raise corpus.CorpusError(f"{reference.case.name}: {failures[0].message}")
    return [
        _launch(number, reference.case, *runs)
        for number, runs in enumerate(zip(reference.runs, candidate.runs), 1)
    ]


def _launch(number: int, case: Case, reference: Run, candidate: Run) -> RecordedLaunch:
    # Both have as many samples, but for the turn in which the first had enough.
    count = min(len(reference.samples_s), len(candidate.samples_s))
    sides = [Side(samples_s=run.samples_s[:count]) for run in (reference, candidate)]
    first = First.REFERENCE if number % 4 < 2 else First.CANDIDATE
    return RecordedLaunch(
        number=number,
        payload_bytes=case.payload_bytes,
        first=first,
        reference=sides[0],
        candidate=sides[1],
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evidence record", description=__doc__)
    parser.add_argument("--file", type=Path, default=corpus.FOLDER / "cpu.jsonl.gz")
    parser.add_argument("--sessions", type=int, default=1, help="how many of each share")
    parser.add_argument("--pause-s", type=float, default=60.0, help="between two of them")
    parser.add_argument(
        "--shares",
        type=lambda text: [float(word) for word in text.split(",")],
        default=[0.0],
        help="comma list: how much more time the candidate is to take; 0: unchanged code",
    )
    parser.add_argument(
        "--at",
        type=metrics.parse_payload,
        metavar="SIZE",
        help="the one payload made slow",
    )
    parser.add_argument("--payloads", default="4K,16K,64K,256K,1M,4M,16M")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--launches", type=int, default=12, help="pairs in a session")
    parser.add_argument("--samples", type=int, default=40, help="in a launch, at most")
    parser.add_argument("--budget-s", type=float, default=1.5, help="time for them, of both sides")
    return parser
