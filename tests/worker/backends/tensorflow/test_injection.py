"""What can be injected in real TensorFlow, and what cannot."""

from __future__ import annotations

import pytest

from busbw.model import Extra, Failure, FailureKind, Injection, Run
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

SABOTAGES = {
    "delay": Sabotage(code="", injection=Injection(extra=Extra.DELAY, share=0.1)),
    "payload": Sabotage(code="", injection=Injection(extra=Extra.PAYLOAD, share=0.1)),
    "sleep": Sabotage(code="", injection=Injection(extra=Extra.SLEEP, seconds=1e-3)),
}

Results = dict[str, "Run | Failure"]


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("tensorflow", SABOTAGES)


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
