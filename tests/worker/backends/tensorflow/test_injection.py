"""What cannot be injected in real TensorFlow."""

from __future__ import annotations

import pytest

from busbw.model.launch import Failure, Injection
from busbw.model.words import Extra, FailureKind
from tests.worker.backends import real
from tests.worker.backends.real import Sabotage

pytestmark = [real.needs("tensorflow"), pytest.mark.exhaustive]

DELAY = Sabotage(code="", injection=Injection(extra=Extra.DELAY, share=0.1))


def test_a_delay_after_a_collective_is_unavailable_and_no_number() -> None:
    failure = real.sabotaged("tensorflow", {"delay": DELAY})["delay"]
    assert isinstance(failure, Failure), failure
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message == "TensorFlow's program cannot do a delay"
