"""Real launches of a framework in a worker of its own, as the driver starts it; and sabotage.

pytest imports no framework, so that these tests look at what comes back over the channel.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from busbw import grid, wire
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe
from busbw.driver.local import LocalTransport
from busbw.driver.schedules import Passes, Side, Stack
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, Spec
from busbw.model.launch import Failure, Injection, Measurement, Plan, Run
from busbw.model.machine import Probe
from busbw.model.words import Capability, Device
from busbw.worker import process
from tests import build

# Long enough for a chain to be told from an empty call on a machine that stalls.
QUICK = Plan(launches=1, samples=3, min_sample_s=2e-2, budget_s=0.3)
TIMEOUT_S = 120

# What a run ends with where the machine stood still while a chain was timed.
STALLED = "the host's clock cannot distinguish them"


def needs(module: str) -> pytest.MarkDecorator:
    """Skip where a framework, or a compiler, is not installed: none needs the other."""
    return pytest.mark.framework(module)


def is_there(module: str) -> bool:
    """Whether a module can be imported here; it is not."""
    package, _, _ = module.rpartition(".")
    found = not package or importlib.util.find_spec(package)
    return bool(found and importlib.util.find_spec(module))


def starter(framework: str, ranks: int) -> Starter:
    """The framework of this interpreter on that number of virtual CPU devices."""
    return Starter(
        python=sys.executable,
        framework=framework,
        device="cpu",
        ranks=ranks,
        defaults=FRAMEWORKS[framework].environment,
    )


def prepare(
    framework: str, device: Device | None, capability: Capability = Capability.MEASURE
) -> None:
    """Make of this process what a worker is before it imports `framework`."""
    for name, value in FRAMEWORKS[framework].environment.get(capability, {}).items():
        os.environ.setdefault(name, value)
    process.prepare(device, capability)


def launch(specs: Sequence[Spec], ranks: int, plan: Plan = QUICK) -> list[Run | Failure]:
    """One launch over cases of one framework, in the order of `specs`.

    A case in which the machine stalled is launched once more, twice at most.
    """
    framework = specs[0].framework
    bundle = Bundle()
    try:
        start = starter(framework, ranks)
        executor = Executor(LocalTransport(bundle))
        target = grid.choose_target(
            device=Device.CPU, ranks=ranks, probes=[_probe(framework, ranks)], named=[framework]
        )
        stacks = {Side.CANDIDATE: Stack(starters={framework: start})}
        keys = {grid.resolve(spec, target): target.key(spec) for spec in specs}
        found: dict[Case, Run | Failure] = {}
        for _ in range(3):
            again = {case: key for case, key in keys.items() if _stalled(found.get(case))}
            if again:
                passes = Passes(executor, again, plan, stacks)
                passes.run()
                found |= {one.case: _only(one) for one in passes.measurements()}
        return [found[case] for case in keys]
    finally:
        bundle.remove()


@functools.cache
def _probe(framework: str, ranks: int) -> Probe:
    """What a framework finds here, which is the same for all tests."""
    bundle = Bundle()
    try:
        executor = Executor(LocalTransport(bundle))
        return probe(starter(framework, ranks), executor)
    finally:
        bundle.remove()


def _stalled(result: Run | Failure | None) -> bool:
    """Whether there is no result yet, or none but that a stall was as long as what was timed."""
    return result is None or (isinstance(result, Failure) and STALLED in result.message)


def _only(measurement: Measurement) -> Run | Failure:
    results: list[Run | Failure] = [*measurement.runs, *measurement.failures]
    assert len(results) == 1
    return results[0]


@dataclass(frozen=True, kw_only=True)
class Sabotage:
    """Python that breaks the back end, and the case that is then measured, with an injection.

    It finds the back end as `backend`, its module with the program as `program` and that with
    the class of the back end as `door`; `put(owner, name, value)` lasts until the case is over.
    """

    code: str
    case: Mapping[str, Any] = field(default_factory=dict)
    injection: Injection | None = None


_SCRIPT = """
import importlib, json, os, sys
sys.path.insert(0, os.getcwd())
from busbw import wire
from busbw.model.case import Case
from busbw.model.words import Device
from busbw.model.launch import Injection, LaunchId, Plan
from busbw.worker import measure
from busbw.worker.backends import load

framework, jobs = sys.argv[1], json.loads(sys.argv[2])
from tests.worker.backends import real
real.prepare(framework, Device.CPU)
backend = load(framework, Device.CPU, 4)
program = importlib.import_module(f"busbw.worker.backends.{framework}.collective")
door = importlib.import_module(f"busbw.worker.backends.{framework}.backend")
plan = Plan(launches=1, samples=4, min_sample_s=2e-2, budget_s=0.4)
for job in jobs:
    undone = []

    def put(owner, name, value):
        undone.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    exec(job["code"], {"backend": backend, "program": program, "door": door, "put": put})
    case = wire.from_json(Case, job["case"])
    injection = job["injection"] and wire.from_json(Injection, job["injection"])
    for _ in range(3):
        desk = measure.MeasureSession(backend=backend, launch=LaunchId(name="1"))
        result = desk.measure(case, plan, None, injection)
        if sys.argv[3] not in getattr(result, "message", ""):
            break
    for owner, name, value in reversed(undone):
        setattr(owner, name, value)
    reply = {"kind": type(result).__name__, "value": wire.to_json(result)}
    print("RESULT", json.dumps(reply), flush=True)
"""


def sabotaged(framework: str, sabotages: Mapping[str, Sabotage]) -> dict[str, Run | Failure]:
    """What comes of measuring one case after each of these, all in one process."""
    jobs = [
        {
            "code": textwrap.dedent(one.code),
            "case": wire.to_json(_case(framework, one.case)),
            "injection": wire.to_json(one.injection),
        }
        for one in sabotages.values()
    ]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, framework, json.dumps(jobs), STALLED],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == len(jobs), done.stderr[-3000:]
    return dict(zip(sabotages, (_result(json.loads(line[7:])) for line in lines)))


def _case(framework: str, changes: Mapping[str, Any]) -> Case:
    strategy = "psum" if framework == "jax" else "ring"
    return build.case(**{"framework": framework, "strategy": strategy, **changes})


def _result(reply: Mapping[str, Any]) -> Run | Failure:
    if reply["kind"] == "Run":
        return wire.from_json(Run, reply["value"])
    return wire.from_json(Failure, reply["value"])
