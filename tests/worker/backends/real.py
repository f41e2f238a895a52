"""One real launch of a framework in a worker of its own, as the driver starts it; and sabotage.

pytest imports no framework, so that these tests look at what comes back over the channel.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from busbw import cases, driver
from busbw.model import Case, Device, Failure, Measurement, Plan, Run, Spec

QUICK = Plan(launches=1, samples=2, min_sample_s=1e-4, budget_s=0.01)


def needs(framework: str) -> pytest.MarkDecorator:
    """Skip where the framework is not installed: neither needs the other."""
    absent = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(absent, reason=f"{framework} is not installed")


def starter(framework: str, ranks: int) -> driver.Starter:
    """The framework of this interpreter on so many virtual CPU devices."""
    return driver.Starter(python=sys.executable, framework=framework, device="cpu", ranks=ranks)


def launch(specs: list[Spec], ranks: int, plan: Plan = QUICK) -> list[Run | Failure]:
    """One launch over cases of one framework, in the order of `specs`."""
    framework = specs[0].framework
    bundle = driver.Bundle()
    try:
        start = starter(framework, ranks)
        target = cases.choose_target(
            device=Device.CPU, ranks=ranks, probes=[driver.probe(start, bundle)], named=[framework]
        )
        resolved: list[Case] = [cases.resolve(spec, target) for spec in specs]
        sweep = driver.Sweep(cases=resolved, plan=plan, starters={framework: start}, bundle=bundle)
        sweep.run()
        return [_only(measurement) for measurement in sweep.measurements()]
    finally:
        bundle.remove()


def _only(measurement: Measurement) -> Run | Failure:
    results: list[Run | Failure] = [*measurement.runs, *measurement.failures]
    assert len(results) == 1
    return results[0]


def sabotaged(framework: str, sabotage: str, **changes: object) -> str:
    """Measure one case in a process where `sabotage` was run first; the result's repr.

    `sabotage` is Python that finds the back end's program module as `program`.
    """
    script = f"""
    import importlib
    from busbw.model import Case, Device, Plan
    from busbw.worker import environ, measure
    from busbw.worker.backends import load
    environ.prepare({framework!r}, Device.CPU)
    backend = load({framework!r}, Device.CPU, 4)
    program = importlib.import_module("busbw.worker.backends.{framework}_program")
    """
    case: dict[str, object] = {
        "framework": framework,
        "payload_bytes": 4096,
        "collective": "all_reduce",
        "strategy": "psum" if framework == "jax" else "ring",
        "dtype": "float32",
        "reduce_op": "sum",
        "ranks": 4,
        "mesh": "",
        "placement": "in_place",
        "protocol": "test",
        **changes,
    }
    ending = f"""
    plan = Plan(launches=1, samples=2, min_sample_s=1e-4, budget_s=0.01)
    print("RESULT", measure.Desk(backend=backend, launch="1").measure(Case(**{case!r}), plan))
    """
    text = textwrap.dedent(script) + textwrap.dedent(sabotage) + textwrap.dedent(ending)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-2000:]
    return lines[0]
