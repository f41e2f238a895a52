"""The check on the devices themselves, on virtual ones, and work that is injected into programs.

What a test wants to see of a program is asserted in the process that has it.
"""

from __future__ import annotations

from typing import Any

import pytest

from busbw.collectives import COLLECTIVES
from busbw.model.launch import Injection
from busbw.model.words import FailureKind
from tests.helpers import frameworks as real
from tests.helpers.frameworks import Results, Sabotage, run_of

pytestmark = [real.needs("jax"), pytest.mark.exhaustive]

# Short chunks, so that a buffer has many and a rest; the host may look at what is wrong only.
ON_DEVICES = """
from busbw.worker.backends import values
right_init = door.JaxProgram.__init__
put(door.JaxProgram, "__init__", lambda self, case, mesh, *, is_virtual, **options: right_init(
    self, case, mesh, is_virtual=False, **options))
put(program, "_CHUNK_ELEMENTS", 64)
"""

NOT_ON_THE_HOST = """
def check(self, rank, number, iterations, result):
    raise AssertionError(f"rank {rank} was looked at on the host")
put(values.CaseValues, "check_result_of_rank", check)
"""

OFF_BY_ONE_BIT = """
right = door.JaxProgram.run
def run(self, iterations):
    right(self, iterations)
    self.result = self.result.at[{place}].multiply(1 + 2**-23)
put(door.JaxProgram, "run", run)
"""

SIZES = (16, 4000)
PLACES = (0, 64, 500, 999)


def _case(name: str, payload_bytes: int) -> dict[str, Any]:
    reduce_op = "sum" if COLLECTIVES[name].reduce_ops else "none"
    return {
        "collective": name,
        "reduce_op": reduce_op,
        "placement": "out_of_place",
        "payload_bytes": payload_bytes,
    }


SABOTAGES = {
    **{
        f"{name} {size}": Sabotage(code=ON_DEVICES + NOT_ON_THE_HOST, case=_case(name, size))
        for name in COLLECTIVES
        for size in SIZES
    },
    **{
        f"{name} wrong at {place}": Sabotage(
            code=ON_DEVICES + OFF_BY_ONE_BIT.format(place=2 * 1000 + place), case=_case(name, 4000)
        )
        for name in ("all_reduce", "all_to_all")
        for place in PLACES
    },
}


@pytest.fixture(scope="module")
def results() -> Results:
    return real.sabotaged("jax", SABOTAGES)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("size", SIZES)
def test_a_right_result_of_jax_is_accepted_by_the_check_on_the_devices_without_the_host(
    results: Results, name: str, size: int
) -> None:
    run_of(results, f"{name} {size}")


@pytest.mark.parametrize("name", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("place", PLACES)
def test_the_check_on_the_devices_finds_a_wrong_element_of_a_jax_result_at_any_index(
    results: Results, name: str, place: int
) -> None:
    result = results[f"{name} wrong at {place}"]
    real.refused(result, FailureKind.WRONG_RESULT, f"rank 2, element {place}: ")


# A step of the busy loop is three shifts and exclusive ors; the collective has none.
BUSY = """
right = door.JaxProgram.__init__
def init(self, *arguments, **options):
    right(self, *arguments, **options)
    assert (" xor(" in self._call.as_text()) == {delays}
put(door.JaxProgram, "__init__", init)
"""
NOT_BUSY, BUSY = BUSY.format(delays=False), BUSY.format(delays=True)
# What a compiler would do that sees what the loop gives.
NO_STEPS = """
right = door.JaxProgram.run
def run(self, iterations):
    self.delay_steps = 0
    right(self, iterations)
put(door.JaxProgram, "run", run)
"""

DELAY = Injection(share=3.0)

DISPATCH = {"protocol": "dispatch/chain2"}
BY_DEVICE = {"protocol": "device/chain2"}
# A collective that takes long enough to be measured on a busy machine.
LARGE = {"payload_bytes": 2**20}
OUT_OF_PLACE = {"placement": "out_of_place", **LARGE}
GATHER = {"collective": "all_gather", "reduce_op": "none", **OUT_OF_PLACE}

DELAYED = {
    "without": Sabotage(code=NOT_BUSY),
    "delay": Sabotage(code=BUSY, case=LARGE, injection=DELAY),
    "delay out of place": Sabotage(code=BUSY, case=OUT_OF_PLACE, injection=DELAY),
    "delay of a gather": Sabotage(code=BUSY, case=GATHER, injection=DELAY),
    "delay of single calls": Sabotage(code="", case=DISPATCH, injection=DELAY),
    "delay by the device's clock": Sabotage(code="", case=BY_DEVICE, injection=DELAY),
    "delay of no steps": Sabotage(code=NO_STEPS, case=LARGE, injection=DELAY),
    "without again": Sabotage(code=NOT_BUSY),
}


@pytest.fixture(scope="module")
def delayed() -> Results:
    return real.sabotaged("jax", DELAYED)


@pytest.mark.parametrize("name", ["delay", "delay out of place", "delay of a gather"])
def test_a_jax_run_with_an_injected_delay_measures_the_delay_and_has_right_values(
    delayed: Results, name: str
) -> None:
    run = run_of(delayed, name)
    assert run.injected == "delay:300%"
    assert run.values_checked > 0
    # How large it is, is asked of the fake, whose clock is exact: this machine may be busy.
    assert run.injected_ratio is not None and run.injected_ratio > 1


@pytest.mark.parametrize("name", ["without", "without again"])
def test_a_jax_program_without_an_injection_has_only_the_collective(
    delayed: Results, name: str
) -> None:
    run = run_of(delayed, name)
    assert (run.injected, run.injected_ratio) == ("", None)
    assert run.proof.collectives == {"all-reduce": 4}
    assert run.proof.payload_copies == 0


def test_a_jax_launch_whose_program_lost_its_injected_delay_is_refused(delayed: Results) -> None:
    text = "the delay was not applied: with delay:300% a collective took "
    real.refused(delayed["delay of no steps"], FailureKind.UNAVAILABLE, text)
