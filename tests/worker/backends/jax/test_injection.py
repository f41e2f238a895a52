"""What can be injected in real JAX: values stay right, and the work is really done.

What a test wants to see of a program is asserted in the process that has it.
"""

from __future__ import annotations

import pytest

from busbw.model.launch import Injection
from busbw.model.words import Extra, FailureKind
from tests.worker.backends import real
from tests.worker.backends.real import Results, Sabotage, run_of

pytestmark = [real.needs("jax"), pytest.mark.exhaustive]

# A step of the busy loop is three shifts and exclusive ors; the collective has none.
BUSY = """
right = program.CollectiveProgram.__init__
def init(self, *arguments, **options):
    right(self, *arguments, **options)
    assert " xor(" not in self._call.as_text()
    assert (" xor(" in self._slowed.as_text()) == {delays} if self._slowed else not {delays}
put(program.CollectiveProgram, "__init__", init)
"""
NOT_BUSY, BUSY = BUSY.format(delays=False), BUSY.format(delays=True)

DELAY = Injection(extra=Extra.DELAY, share=2.0)
MICROSECONDS = Injection(extra=Extra.DELAY, seconds=50e-6)

DISPATCH = {"protocol": "dispatch/chain2"}
OUT_OF_PLACE = {"placement": "out_of_place"}
GATHER = {"collective": "all_gather", "reduce_op": "none", **OUT_OF_PLACE}

SABOTAGES = {
    "without": Sabotage(code=NOT_BUSY),
    "delay": Sabotage(code=BUSY, injection=DELAY),
    "delay in microseconds": Sabotage(code=BUSY, injection=MICROSECONDS),
    "delay out of place": Sabotage(code=BUSY, case=OUT_OF_PLACE, injection=DELAY),
    "delay of a gather": Sabotage(code=BUSY, case=GATHER, injection=DELAY),
    "delay of single calls": Sabotage(code="", case=DISPATCH, injection=DELAY),
    "without again": Sabotage(code=NOT_BUSY),
}


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("jax", SABOTAGES)


@pytest.mark.parametrize(
    "name", ["delay", "delay in microseconds", "delay out of place", "delay of a gather"]
)
def test_a_delay_is_in_the_program_and_touches_no_value(results: Results, name: str) -> None:
    run = run_of(results, name)
    assert run.injected == ("delay:50us" if "micro" in name else "delay:200%")
    assert run.values_checked > 0
    # How large it is, is asked of the fake, whose clock is exact: this machine may be busy.
    assert run.injected_ratio is not None and run.injected_ratio > 0


@pytest.mark.parametrize("name", ["without", "without again"])
def test_without_an_injection_nothing_is_beside_the_collective(results: Results, name: str) -> None:
    run = run_of(results, name)
    assert (run.injected, run.injected_ratio) == ("", None)
    assert run.proof.collectives == {"all-reduce": 4}
    assert run.proof.payload_copies == 0


def test_a_delay_of_single_calls_is_unavailable_and_no_number(results: Results) -> None:
    said = "a delay is for chains, not single calls"
    real.refused(results["delay of single calls"], FailureKind.UNAVAILABLE, said)
