"""The real training step in TensorFlow on logical CPUs: timed, proved, checked, and sabotaged."""

from __future__ import annotations

import pytest

from busbw.model.case import Spec
from busbw.model.launch import Injection, Run
from busbw.model.words import Extra, FailureKind
from tests import build
from tests.worker.backends import real
from tests.worker.backends.real import Results, Sabotage, run_of

from .test_sabotage import HALF_THE_RANKS

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

SIZES = (2048, 10 * 2048, 2**20)
OTHERS = ("reduction_to_one_device", "hierarchical_copy")
LARGE = 2**25
STEP = {"payload_bytes": 2**15, "step": "dense", "protocol": "host/dense-step-16-rows/default"}


def _step(payload_bytes: int, strategy: str = "default") -> Spec:
    return build.spec(
        framework="tensorflow", payload_bytes=payload_bytes, step="dense", strategy=strategy
    )


SPECS = {
    **{f"{size} bytes": _step(size) for size in (*SIZES, LARGE)},
    **{strategy: _step(2**20, strategy) for strategy in OTHERS},
}


@pytest.fixture(scope="module")
def results() -> Results:
    return dict(zip(SPECS, real.launch(list(SPECS.values()), ranks=4)))


@pytest.mark.parametrize("size", SIZES)
def test_a_step_holds_the_all_reduce_of_its_gradient_and_all_weights_are_checked(
    results: Results, size: int
) -> None:
    run = run_of(results, f"{size} bytes")
    assert run.proof.collectives == {"CollectiveReduceV2": 4}
    assert (run.proof.array_bytes, run.proof.groups) == (size, ((0, 1, 2, 3),))
    assert run.proof.read_from == "executed graph"
    # Every weight of four ranks: as many as one rank's bytes.
    assert run.values_checked % size == 0
    assert run.values_checked >= 5 * size
    assert run.clock == "host"


def test_over_two_ranks_a_step_is_as_right_as_over_four() -> None:
    (found,) = real.launch([_step(2**15)], ranks=2)
    run = run_of({"": found}, "")
    assert run.proof.collectives == {"CollectiveReduceV2": 2}
    assert len(run.rank_times_s) == 2


@pytest.mark.parametrize("strategy", OTHERS)
def test_strategies_that_reduce_to_one_device_have_steps_without_times_inside(
    results: Results, strategy: str
) -> None:
    run = run_of(results, strategy)
    assert set(run.proof.collectives) == {"AddN"}
    assert run.proof.algorithm == strategy
    assert (dict(run.over_ranks_s), run.rank_times_s) == ({}, ())


def test_the_all_reduce_inside_of_a_step_is_read_from_the_profiler(results: Results) -> None:
    run = run_of(results, f"{2**20} bytes")
    assert 0 < run.over_ranks_s["fastest"] <= run.over_ranks_s["slowest"]
    assert len(run.rank_times_s) == 4


def test_the_predicted_peak_is_within_a_quarter_of_the_measured_one(results: Results) -> None:
    run = run_of(results, f"{LARGE} bytes")
    assert run.peak_memory_bytes is not None and run.predicted_memory_bytes is not None
    assert 0.75 < run.predicted_memory_bytes / run.peak_memory_bytes < 1.25


_STEP = """
        import tensorflow as tf
        whole = program.summed
        """

# A factor of its own for one of the replicas; 1 for the others.
_FACTOR = """
        def factor(wanted, of_it):
            rank = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.where(tf.equal(rank, wanted), of_it, 1.0)
        """

# After chains of every length, from either draw, weights are the reference's.
_LENGTHS = """
        right = program.TensorflowProgram.__init__
        def init(self, *arguments, **options):
            right(self, *arguments, **options)
            for length in (1, 2, 5, 40, 255, 256):
                self.fresh()
                self.run(length)
                assert self.check(length) == 4 * 2**13
        put(program.TensorflowProgram, "__init__", init)
        """

SABOTAGES = {
    "nothing": Sabotage(code="", case=STEP),
    "lengths": Sabotage(code=_STEP + _LENGTHS, case=STEP),
    "no all-reduce": Sabotage(
        code=_STEP + 'put(program, "summed", lambda gradient: 4 * gradient)', case=STEP
    ),
    "twice": Sabotage(
        code=_STEP + 'put(program, "summed", lambda gradient: whole(whole(gradient)))',
        case=STEP,
    ),
    "half of the gradient": Sabotage(
        code=_STEP
        + """
        put(program, "summed", lambda gradient: tf.tile(whole(gradient[:8]), [2, 1]))
        """,
        case=STEP,
    ),
    "one rank's gradient": Sabotage(
        code=_STEP
        + _FACTOR
        + """
        put(program, "summed", lambda gradient: whole(gradient * factor(3, 0.0)))
        """,
        case=STEP,
    ),
    "one rank's weights": Sabotage(
        code=_STEP
        + _FACTOR
        + """
        put(program, "summed", lambda gradient: whole(gradient) * factor(2, 1 + 2**-20))
        """,
        case=STEP,
    ),
    "rate": Sabotage(
        code=_STEP + 'put(program, "LEARNING_RATE", 0.0505)',
        case=STEP,
    ),
    "counts": Sabotage(
        code=_STEP
        + """
        inner = program.TensorflowProgram.run
        put(program.TensorflowProgram, "run",
            lambda self, n: inner(self, n + 1 if n else 0))
        """,
        case=STEP,
    ),
    "delay": Sabotage(code="", case=STEP, injection=Injection(extra=Extra.DELAY, share=3.0)),
    "half the ranks": Sabotage(code=HALF_THE_RANKS, case=STEP),
}


@pytest.fixture(scope="module")
def sabotaged() -> Results:
    return real.sabotaged("tensorflow", SABOTAGES)


@pytest.mark.parametrize("name", ["nothing", "lengths"])
def test_weights_are_the_reference_s_after_chains_of_every_length(
    sabotaged: Results, name: str
) -> None:
    assert isinstance(sabotaged[name], Run), sabotaged[name]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("no all-reduce", FailureKind.NOT_A_COLLECTIVE, "TensorFlow put no reduction"),
        ("twice", FailureKind.NOT_A_COLLECTIVE, "TensorFlow put {'CollectiveReduceV2': 8}"),
        ("half of the gradient", FailureKind.NOT_A_COLLECTIVE, "of 16384 bytes, expected 32768"),
        ("half the ranks", FailureKind.NOT_A_COLLECTIVE, "is over 2 ranks, expected 4"),
        ("rate", FailureKind.WRONG_RESULT, "after"),
        ("one rank's gradient", FailureKind.WRONG_RESULT, "after"),
        ("one rank's weights", FailureKind.WRONG_RESULT, "on rank 2: the ranks no longer agree"),
        ("counts", FailureKind.WRONG_RESULT, "the program ran 2 steps, expected 1"),
        ("delay", FailureKind.UNAVAILABLE, "TensorFlow's program cannot do a delay"),
    ],
)
def test_a_broken_step_is_a_failure_and_never_a_time(
    sabotaged: Results, name: str, kind: FailureKind, said: str
) -> None:
    real.refused(sabotaged[name], kind, said)
