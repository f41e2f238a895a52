"""Real launches of a framework in a worker of its own, as the driver starts it; and sabotage.

pytest imports no framework, so that these tests look at what comes back over the channel.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from busbw import grid, wire
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe
from busbw.driver.local import LocalTransport
from busbw.driver.schedules import RoundRunner, Side, StackWorkers
from busbw.driver.transport import WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case, CaseSpec
from busbw.model.launch import Failure, Injection, Measurement, MeasurementPlan, Run
from busbw.model.machine import EnvironmentKey, Probe
from busbw.model.variables import with_huge_pages
from busbw.model.words import DeviceClass, FailureKind
from busbw.worker.__main__ import set_framework_variables
from tests.helpers import build

# Long enough for a chain to be told from an empty call on a machine that stalls.
QUICK = MeasurementPlan(launches=1, samples=3, min_sample_s=2e-2, budget_s=0.3)
TIMEOUT_S = 120

# What a run ends with where the machine stood still while a chain was timed.
_STALLED = ("the host's clock cannot distinguish them", "repeat it on an idle machine")

Results = dict[str, "Run | Failure"]

_BEGIN = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from tests.helpers import frameworks as real

def say(value):
    print("RESULT", json.dumps(value), flush=True)
"""


def needs(module: str) -> pytest.MarkDecorator:
    """Skip where a framework, or a compiler, is not installed: none needs the other."""
    return pytest.mark.framework(module)


def is_there(module: str) -> bool:
    """Return whether a module can be imported; it is not."""
    package, _, _ = module.rpartition(".")
    spec = not package or importlib.util.find_spec(package)
    return bool(spec and importlib.util.find_spec(module))


def worker_spec(framework: str, ranks: int) -> WorkerSpec:
    """Return the framework of this interpreter on that number of virtual CPU devices."""
    return WorkerSpec(
        python=sys.executable,
        framework=framework,
        device="cpu",
        ranks=ranks,
        default_variables=FRAMEWORKS[framework].environment,
    )


def prepare(
    framework: str, device: DeviceClass | None, variables: Mapping[str, str] | None = None
) -> None:
    """Make of this process what a worker is before it imports `framework`."""
    for name, value in (variables or FRAMEWORKS[framework].environment).items():
        os.environ.setdefault(name, value)
    set_framework_variables(device)


def run_script(
    script: str, *arguments: str, timeout_s: float = TIMEOUT_S, **environ: str
) -> list[Any]:
    """Return what `script` hands to `say` in a process that alone imports a framework."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=Path(__file__).parents[2],
        env=with_huge_pages({**os.environ, **environ}),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


@contextlib.contextmanager
def local_executor() -> Iterator[Executor]:
    bundle = Bundle()
    try:
        yield Executor(LocalTransport(bundle))
    finally:
        bundle.remove()


def launch(
    specs: Sequence[CaseSpec], ranks: int, plan: MeasurementPlan = QUICK
) -> list[Run | Failure]:
    """Measure cases of one framework in one launch, in the order of `specs`.

    A case in which the machine stalled is launched once more, twice at most.
    """
    framework = specs[0].framework
    stacks = {Side.CANDIDATE: StackWorkers(worker_specs={framework: worker_spec(framework, ranks)})}
    keys = keys_of(specs, ranks)
    results: dict[Case, Run | Failure] = {}
    with local_executor() as executor:
        for _ in range(3):
            again = {case: key for case, key in keys.items() if _is_open(results.get(case))}
            if again:
                schedule = RoundRunner(executor, again, plan, stacks)
                schedule.run()
                results |= {
                    measurement.case: _only(measurement) for measurement in schedule.measurements()
                }
    return [results[case] for case in keys]


def keys_of(specs: Sequence[CaseSpec], ranks: int) -> dict[Case, EnvironmentKey]:
    """Resolve the cases of one framework, each with where it is measured."""
    framework = specs[0].framework
    target = grid.choose_devices(
        device=DeviceClass.CPU,
        ranks=ranks,
        probes=[_probe(framework, ranks)],
        named_frameworks=[framework],
    )
    return dict(grid.resolve_case(spec, target) for spec in specs)


@functools.cache
def _probe(framework: str, ranks: int) -> Probe:
    """Return what a framework finds here, which is the same for all tests."""
    with local_executor() as executor:
        return probe(worker_spec(framework, ranks), executor)


def is_stalled(text: str) -> bool:
    """Return whether `text` says that the machine stood still while a chain was timed."""
    return any(sentence in text for sentence in _STALLED)


def _is_open(result: Run | Failure | None) -> bool:
    return result is None or (isinstance(result, Failure) and is_stalled(result.message))


def _only(measurement: Measurement) -> Run | Failure:
    results: list[Run | Failure] = [*measurement.runs, *measurement.failures]
    assert len(results) == 1
    return results[0]


def run_of(results: Mapping[str, Run | Failure], name: str) -> Run:
    run = results[name]
    assert isinstance(run, Run), run
    return run


def refused(result: object, kind: FailureKind, message: str) -> None:
    assert isinstance(result, Failure), result
    assert (result.kind, message in result.message) == (kind, True), result.message


def check_clock(run: Run, clock: str) -> None:
    """Check what every framework's run by one of the clocks says of its times."""
    assert run.clock == clock
    if clock == "dispatch":
        assert (run.iterations, run.dispatch_s, list(run.clocks_s)) == (1, None, [clock])
    elif clock == "device":
        assert set(run.clocks_s) == {"host", "device"}
        assert len(run.rank_times_s) == 4
        assert all(seconds > 0 for seconds in (*run.rank_times_s, *run.samples_s))
        assert run.iterations >= 2
        assert run.phases_s["recording"] > 0
    else:
        assert (list(run.clocks_s), run.rank_times_s) == (["host"], ())
        assert min(run.samples_s) <= run.clocks_s["host"] <= max(run.samples_s)
        phases = {"compiling", "warming_up", "sampling", "laying_out", "checking"}
        assert phases <= set(run.phases_s)
        assert all(seconds >= 0 for seconds in run.phases_s.values())
        assert run.phases_s["compiling"] >= run.compile_s > 0


@dataclass(frozen=True, kw_only=True)
class Sabotage:
    """Python that breaks the back end, and the case that is then measured, with an injection.

    It finds the back end as `backend`, its module with the collective as `program` and that with
    the class of the back end as `door`; `put(owner, name, value)` lasts until the case is over.
    """

    code: str
    case: Mapping[str, Any] = field(default_factory=dict)
    injection: Injection | None = None


_SABOTAGED = """
import importlib
from busbw import wire
from busbw.model.case import Case
from busbw.model.words import DeviceClass
from busbw.model.launch import Injection, LaunchId, MeasurementPlan
from busbw.worker import measure
from busbw.worker.backends import load
from busbw.worker.backends.base import MeasuringError
from busbw.worker.host import HostMemoryGuard

framework, jobs = sys.argv[1], json.loads(sys.argv[2])
real.prepare(framework, DeviceClass.CPU)
backend = load(framework, DeviceClass.CPU, 4)
program = importlib.import_module(f"busbw.worker.backends.{framework}.program")
door = importlib.import_module(f"busbw.worker.backends.{framework}.backend")
plan = MeasurementPlan(launches=1, samples=4, min_sample_s=2e-2, budget_s=0.4)
for job in jobs:
    undone = []

    def put(owner, name, value):
        undone.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    exec(job["code"], {"backend": backend, "program": program, "door": door, "put": put})
    case = wire.from_json(Case, job["case"])
    injection = job["injection"] and wire.from_json(Injection, job["injection"])
    for _ in range(3):
        host_memory = HostMemoryGuard(backend.all_gather)
        session = measure.MeasuringWorker(backend, LaunchId(name="1"), host_memory)
        request = measure.CaseRequest(case=case, plan=plan, key=None, injection=injection)
        try:
            result = session.measure(wire.to_json(request))
        except MeasuringError as error:
            result = error.to_failure(session.launch)
        if not real.is_stalled(getattr(result, "message", "")):
            break
    for owner, name, value in reversed(undone):
        setattr(owner, name, value)
    say([type(result).__name__, wire.to_json(result)])
"""


def sabotaged(framework: str, sabotages: Mapping[str, Sabotage]) -> Results:
    """Measure one case after each of these sabotages, all in one process."""
    usual = {"framework": framework, "strategy": "psum" if framework == "jax" else "ring"}
    jobs = [
        {
            "code": textwrap.dedent(sabotage.code),
            "case": wire.to_json(build.case(**{**usual, **sabotage.case})),
            "injection": wire.to_json(sabotage.injection),
        }
        for sabotage in sabotages.values()
    ]
    replies = run_script(_SABOTAGED, framework, json.dumps(jobs))
    kinds: dict[str, Any] = {"Run": Run, "Failure": Failure}
    assert len(replies) == len(jobs)
    return {
        name: wire.from_json(kinds[kind], value) for name, (kind, value) in zip(sabotages, replies)
    }
