"""The real training step in JAX on virtual CPU devices: timed, proved, checked, and sabotaged."""

from __future__ import annotations

import pytest

from busbw.model.launch import Failure, Injection, Run
from busbw.model.words import Extra, FailureKind
from tests import build
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = real.needs("jax")

SIZES = (2048, 10 * 2048, 2**20)
STEP = {"payload_bytes": 2**15, "step": "dense", "protocol": "host/dense-step-16-rows/default"}


@pytest.fixture(scope="module")
def results() -> dict[int, Run | Failure]:
    specs = [build.spec(payload_bytes=size, step="dense") for size in SIZES]
    return dict(zip(SIZES, real.launch(specs, ranks=4)))


@pytest.mark.parametrize("size", SIZES)
def test_a_step_holds_the_all_reduce_of_its_gradient_and_all_weights_are_checked(
    results: dict[int, Run | Failure], size: int
) -> None:
    run = results[size]
    assert isinstance(run, Run), run
    assert run.proof.collectives == {"all-reduce": 1}
    assert (run.proof.array_bytes, run.proof.groups) == (size, ((0, 1, 2, 3),))
    assert run.proof.payload_copies == 0
    # Every weight of four ranks: as many as one rank's bytes.
    assert run.values_checked % size == 0
    assert run.values_checked >= 5 * size
    assert run.clock == "host"


def test_the_all_reduce_inside_of_a_step_is_read_from_the_profiler(
    results: dict[int, Run | Failure],
) -> None:
    run = results[2**20]
    assert isinstance(run, Run), run
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
    "rate": Sabotage(
        code=_STEP
        + """
        put(dense_step, "LEARNING_RATE", 0.0505)
        """,
        case=STEP,
    ),
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
        inner = dense_step.DenseStepProgram.run
        put(dense_step.DenseStepProgram, "run", lambda self, n: inner(self, n + 1 if n else 0))
        """,
        case=STEP,
    ),
}


@pytest.fixture(scope="module")
def sabotaged() -> dict[str, Run | Failure]:
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
    sabotaged: dict[str, Run | Failure], name: str, kind: FailureKind, said: str
) -> None:
    found = sabotaged[name]
    assert isinstance(found, Failure), found
    assert (found.kind, said in found.message) == (kind, True), found.message


def test_a_delayed_step_is_still_right(sabotaged: dict[str, Run | Failure]) -> None:
    found = sabotaged["delayed"]
    assert isinstance(found, Run), found
    assert found.injected == "delay:300%"
