"""The training step: what it computes on virtual devices, and what libtpu makes of it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from busbw import wire
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalTransport
from busbw.driver.parallel import Job, Parallel
from busbw.driver.transport import Starter
from busbw.frameworks import FRAMEWORKS
from busbw.hardware.topologies import topology_of
from busbw.model.case import Case
from busbw.model.launch import Compiled, Failure
from busbw.model.words import Capability, FailureKind
from busbw.workloads.dense_step import Batch
from tests import build
from tests.sweep import sweep

from ..real import TIMEOUT_S, needs

pytestmark = needs("jax")

needs_libtpu = needs("libtpu")

V2_8 = topology_of("v2:2x2")
STEP = build.step(payload_bytes=4 * 6 * 5, outputs=5, rows=3, ranks=4)

_ON_THE_CPU = """
import json, sys
import numpy as np
from busbw import wire
from busbw.model.case import Case
from busbw.model.words import Device
from busbw.worker.backends.jax import backend, dense_step, versions

from busbw.workloads.dense_step import layer_of

case = wire.from_json(Case, json.loads(sys.argv[1]))
step = layer_of(case)
versions.make_cpu_devices(step.ranks)
import jax

mesh = backend.mesh_of(case, jax.devices("cpu"))
weights, rows, labels = dense_step.shapes(step, mesh)
made = np.random.default_rng(0)
given = [
    made.normal(size=weights.shape).astype(np.float32),
    made.normal(size=rows.shape).astype(np.float32) if len(rows.shape) > 1 else
    np.array([1, 2], np.uint32),
    # Where rows are drawn, they alone are to make the ranks' losses differ.
    made.integers(0, step.outputs if len(rows.shape) > 1 else 1, labels.shape).astype(np.int32),
]
placed = [jax.device_put(one, shape.sharding) for one, shape in zip(given, (weights, rows, labels))]
new, losses = dense_step.lowered(step, mesh).compile()(*placed)
out = (*given, np.asarray(new).ravel(), np.asarray(losses))
print("RESULT", json.dumps([one.tolist() for one in out]))
"""

_REFERENCE = """
import json, sys
import numpy as np

weights, rows, labels = (np.array(one) for one in json.loads(sys.argv[1]))
chances = np.exp(rows @ weights)
chances /= chances.sum(axis=1, keepdims=True)
taken = -np.log(chances[np.arange(len(labels)), labels])
chances[np.arange(len(labels)), labels] -= 1
new = weights - 0.05 * rows.T @ chances / len(labels)
print("RESULT", json.dumps([new.ravel().tolist(), taken.tolist()]))
"""


def _said(script: str, asked: object) -> Any:
    """What a script that is given JSON prints as JSON; it alone has a framework or numpy."""
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("RESULT ")] or [""]
    assert line, done.stderr[-3000:]
    return json.loads(line[7:])


@pytest.mark.exhaustive
def test_all_ranks_together_descend_along_the_gradient_of_all_rows() -> None:
    *given, new, losses = _said(_ON_THE_CPU, wire.to_json(STEP))
    wanted, taken = _said(_REFERENCE, given)
    assert new == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    each = [sum(taken[begin : begin + 3]) / 3 for begin in range(0, 12, 3)]
    assert losses == pytest.approx(each, rel=1e-4)


@pytest.mark.exhaustive
def test_each_rank_draws_rows_of_its_own() -> None:
    *_, labels, _, losses = _said(_ON_THE_CPU, wire.to_json(build.step(ranks=4, batch=Batch.DRAWN)))
    assert len(labels) == 4 * 16
    assert len(set(losses)) == 4


@functools.cache
def _compiled(*steps: Case) -> dict[Case, Compiled | Failure]:
    """What libtpu makes of these for a v2-8."""
    bundle = Bundle()
    try:
        starter = Starter(
            python=sys.executable,
            framework="jax",
            capability=Capability.COMPILE,
            defaults=FRAMEWORKS["jax"].environment,
        )
        executor = Executor(LocalTransport(bundle))
        compiling = Parallel(executor, {"": starter}, workers=1, timeout_s=TIMEOUT_S)
        jobs = [Job(case=step, topology=V2_8) for step in steps]
        compiling.run(jobs)
        return {step: compiling.results[job] for step, job in zip(steps, jobs)}
    finally:
        bundle.remove()


@needs_libtpu
@pytest.mark.parametrize("batch", list(Batch))
@pytest.mark.parametrize("inputs", sweep([1, 512]))
def test_libtpu_s_program_holds_one_all_reduce_of_the_gradient(batch: Batch, inputs: int) -> None:
    step = build.step(payload_bytes=2048 * inputs, rows=128, batch=batch)
    found = _compiled(step)[step]
    assert isinstance(found, Compiled), found
    assert found.collectives == {"all-reduce": 1}
    assert found.alias_bytes >= step.payload_bytes


@needs_libtpu
def test_rows_that_do_not_fit_a_core_are_out_of_memory_with_its_figures() -> None:
    large = build.step(payload_bytes=2**29, outputs=1024, rows=16384)
    found = _compiled(large)[large]
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.needed_bytes is not None and found.available_bytes is not None
    assert found.needed_bytes > 16384 * 131072 * 4 > found.available_bytes
