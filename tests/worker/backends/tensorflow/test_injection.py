"""The anchor and what can be injected, in real TensorFlow: values stay right, no more is done."""

from __future__ import annotations

import pytest

from busbw.model import Extra, Failure, FailureKind, Injection, Run
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = real.needs("tensorflow")

# Before and after laying out; the starting values are what the chain begins with, whatever it did.
ANCHORED = """
right = program.CollectiveProgram.fresh
def fresh(self):
    if self._start is not None and hasattr(self, "_call"):
        self.anchor(3)
    right(self)
    if hasattr(self, "_call"):
        self.anchor(3)
put(program.CollectiveProgram, "fresh", fresh)
"""

# Every pass of the anchor changes the sign of every rank's values.
REALLY_DONE = """
import numpy
import tensorflow as tf
right = program.CollectiveProgram.anchor
def anchor(self, passes):
    right(self, passes)
    if passes:
        return
    begun = [value.numpy() for value in self._replicas.of(self._start)]
    for count in (0, 1, 2, 5):
        ended = self._replicas.of(self._signs(self._start, tf.constant(count)))
        assert len(ended) == 4
        for before, after in zip(begun, ended):
            numpy.testing.assert_array_equal(after.numpy(), before * (-1) ** count)
            assert before.any()
put(program.CollectiveProgram, "anchor", anchor)
"""

CASES = {
    "in place": {},
    "out of place": {"placement": "out_of_place"},
    "float16": {"dtype": "float16"},
    "single calls": {"protocol": "dispatch/outer-loop2"},
    "reduction to one device": {"strategy": "reduction_to_one_device"},
}

SABOTAGES = {
    **{name: Sabotage(code=ANCHORED, case=case) for name, case in CASES.items()},
    "really done": Sabotage(code=REALLY_DONE),
    "delay": Sabotage(code="", injection=Injection(extra=Extra.DELAY, share=0.1)),
    "payload": Sabotage(code="", injection=Injection(extra=Extra.PAYLOAD, share=0.1)),
    "sleep": Sabotage(code="", injection=Injection(extra=Extra.SLEEP, seconds=1e-3)),
}

Results = dict[str, "Run | Failure"]


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("tensorflow", SABOTAGES)


@pytest.mark.parametrize("name", [*CASES, "really done"])
def test_the_anchor_leaves_the_next_result_right(results: Results, name: str) -> None:
    run = results[name]
    assert isinstance(run, Run), run
    assert run.values_checked > 0
    assert run.anchors_s and min(run.anchors_s) > 0


@pytest.mark.parametrize("name", ["delay", "payload"])
def test_what_tensorflow_cannot_do_beside_a_collective_is_unavailable_and_no_number(
    results: Results, name: str
) -> None:
    failure = results[name]
    assert isinstance(failure, Failure), failure
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message == f"TensorFlow's program cannot do a {name}"


def test_a_sleep_is_the_host_s_and_can_be_injected(results: Results) -> None:
    run = results["sleep"]
    assert isinstance(run, Run), run
    assert run.injected == "sleep:1000us"
