"""The real training step in JAX on virtual CPU devices, and what libtpu makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw import wire
from busbw.driver.parallel import Job
from busbw.hardware.topologies import topology_of
from busbw.model.case import Case
from busbw.model.launch import Compiled, Failure, Injection
from busbw.model.words import Extra, FailureKind
from busbw.workloads.dense_step import Batch
from tests import build
from tests.sweep import sweep
from tests.worker.backends import real
from tests.worker.backends.real import Results, Sabotage, run_of

pytestmark = real.needs("jax")

SIZES = (2048, 10 * 2048, 2**20)
STEP = {"payload_bytes": 2**15, "step": "dense", "protocol": "host/dense-step-16-rows/default"}


@pytest.fixture(scope="module")
def results() -> Results:
    specs = [build.spec(payload_bytes=size, step="dense") for size in SIZES]
    return dict(zip(map(str, SIZES), real.launch(specs, ranks=4)))


@pytest.mark.parametrize("size", SIZES)
def test_a_step_holds_the_all_reduce_of_its_gradient_and_all_weights_are_checked(
    results: Results, size: int
) -> None:
    run = run_of(results, str(size))
    assert run.proof.collectives == {"all-reduce": 1}
    assert (run.proof.array_bytes, run.proof.groups) == (size, ((0, 1, 2, 3),))
    assert run.proof.payload_copies == 0
    # Every weight of four ranks: as many as one rank's bytes.
    assert run.values_checked % size == 0
    assert run.values_checked >= 5 * size
    assert run.clock == "host"


def test_the_all_reduce_inside_of_a_step_is_read_from_the_profiler(
    results: Results,
) -> None:
    run = run_of(results, str(2**20))
    assert 0 < run.over_ranks_s["fastest"] <= run.over_ranks_s["slowest"]
    assert len(run.rank_times_s) == 4
    # The update waits for the sum; unknown would mean that the recording had nothing else.
    assert run.overlap_fraction is not None
    assert run.overlap_fraction < 0.5


_STEP = """
        import jax
        from busbw.worker.backends import values
        from busbw.worker.backends.jax import dense_step
        """

SABOTAGES = {
    "delayed": Sabotage(code="", case=STEP, injection=Injection(extra=Extra.DELAY, share=3.0)),
    "half of the gradient": Sabotage(
        code=_STEP
        + """
        import jax.numpy as jnp
        whole = jax.lax.psum
        put(jax.lax, "psum", lambda values, axes: jnp.tile(whole(values[:8], axes), (2, 1)))
        """,
        case=STEP,
    ),
    "two ranks of four": Sabotage(
        code=_STEP
        + """
        found = ((0, 1), (2, 3))
        put(dense_step.proof, "groups_of", lambda text, ranks: found)
        """,
        case=STEP,
    ),
    "rate": Sabotage(code=_STEP + 'put(dense_step, "LEARNING_RATE", 0.0505)', case=STEP),
    "one rank's weights": Sabotage(
        code=_STEP
        + """
        import numpy
        same = values.check_same
        def other(rank, first, weights):
            weights = weights.copy()
            weights[3, 4] = numpy.nextafter(weights[3, 4], numpy.float32(rank - 1))
            same(rank, first, weights)
        put(values, "check_same", other)
        """,
        case=STEP,
    ),
    "one rank's gradient": Sabotage(
        code=_STEP
        + """
        import jax.numpy as jnp
        whole = jax.lax.psum
        put(jax.lax, "psum", lambda values, axis: whole(
            jnp.where(jax.lax.axis_index(axis) == 3, 0 * values, values), axis))
        """,
        case=STEP,
    ),
    "counts": Sabotage(
        code=_STEP
        + """
        inner = door.JaxProgram.run
        put(door.JaxProgram, "run", lambda self, n: inner(self, n + 1 if n else 0))
        """,
        case=STEP,
    ),
}


@pytest.fixture(scope="module")
def sabotaged() -> Results:
    return real.sabotaged("jax", SABOTAGES)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("half of the gradient", FailureKind.NOT_A_COLLECTIVE, "1 all-reduce of 32768 bytes"),
        ("two ranks of four", FailureKind.NOT_A_COLLECTIVE, "in groups {0,1,2,3}"),
        ("rate", FailureKind.WRONG_RESULT, "after"),
        ("one rank's gradient", FailureKind.WRONG_RESULT, "after"),
        ("one rank's weights", FailureKind.WRONG_RESULT, "the ranks no longer agree"),
        ("counts", FailureKind.WRONG_RESULT, "steps, expected"),
    ],
)
def test_a_broken_step_is_a_failure_and_never_a_time(
    sabotaged: Results, name: str, kind: FailureKind, said: str
) -> None:
    real.refused(sabotaged[name], kind, said)


@pytest.mark.exhaustive
def test_a_delayed_step_is_still_right(sabotaged: Results) -> None:
    assert run_of(sabotaged, "delayed").injected == "delay:300%"


needs_libtpu = real.needs("libtpu")
SMALL_STEP = build.step(payload_bytes=4 * 6 * 5, outputs=5, rows=3, ranks=4)

_ON_THE_CPU = """
import numpy as np
from busbw import wire
from busbw.model.case import Case
from busbw.worker.backends.jax import backend, dense_step

from busbw.workloads.dense_step import layer_of

case = wire.from_json(Case, json.loads(sys.argv[1]))
step = layer_of(case)
jax.config.update("jax_num_cpu_devices", step.ranks)

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
say([one.tolist() for one in out])
"""

_REFERENCE = """
import numpy as np

weights, rows, labels = (np.array(one) for one in json.loads(sys.argv[1]))
chances = np.exp(rows @ weights)
chances /= chances.sum(axis=1, keepdims=True)
taken = -np.log(chances[np.arange(len(labels)), labels])
chances[np.arange(len(labels)), labels] -= 1
new = weights - 0.05 * rows.T @ chances / len(labels)
say([new.ravel().tolist(), taken.tolist()])
"""


def _on_the_cpu(step: Case) -> Any:
    """Weights, rows and labels that are given, new weights, and each rank's loss."""
    case = json.dumps(wire.to_json(step))
    (found,) = real.said(_ON_THE_CPU, case, JAX_PLATFORMS="cpu")
    return found


@pytest.mark.exhaustive
def test_all_ranks_together_descend_along_the_gradient_of_all_rows() -> None:
    *given, new, losses = _on_the_cpu(SMALL_STEP)
    ((wanted, taken),) = real.said(_REFERENCE, json.dumps(given))
    assert new == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    each = [sum(taken[begin : begin + 3]) / 3 for begin in range(0, 12, 3)]
    assert losses == pytest.approx(each, rel=1e-4)


@pytest.mark.exhaustive
def test_each_rank_draws_rows_of_its_own() -> None:
    *_, labels, _, losses = _on_the_cpu(build.step(ranks=4, batch=Batch.DRAWN))
    assert len(labels) == 4 * 16
    assert len(set(losses)) == 4


def _compiled(step: Case) -> Compiled | Failure:
    """What libtpu makes of it for a v2-8."""
    job = Job(case=step, topology=topology_of("v2:2x2"))
    with real.compiling() as parallel:
        parallel.run([job])
        return parallel.results[job]


@needs_libtpu
@pytest.mark.parametrize("batch", list(Batch))
@pytest.mark.parametrize("inputs", sweep([1, 512]))
def test_libtpu_s_program_holds_one_all_reduce_of_the_gradient(batch: Batch, inputs: int) -> None:
    step = build.step(payload_bytes=2048 * inputs, rows=128, batch=batch)
    found = _compiled(step)
    assert isinstance(found, Compiled), found
    assert found.collectives == {"all-reduce": 1}
    assert found.alias_bytes >= step.payload_bytes


@needs_libtpu
def test_rows_that_do_not_fit_a_core_are_out_of_memory_with_its_figures() -> None:
    large = build.step(payload_bytes=2**29, outputs=1024, rows=16384)
    found = _compiled(large)
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.OUT_OF_MEMORY
    assert found.needed_bytes is not None and found.available_bytes is not None
    assert found.needed_bytes > 16384 * 131072 * 4 > found.available_bytes
