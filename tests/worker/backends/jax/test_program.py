"""The check on the devices themselves, as an accelerator has it, on virtual CPU devices."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.collectives import COLLECTIVES
from busbw.model.words import FailureKind
from tests.worker.backends import real
from tests.worker.backends.real import Results, Sabotage, run_of

pytestmark = [real.needs("jax"), pytest.mark.exhaustive]

# Short stretches, so that a buffer has many and a rest; the host may look at what is wrong only.
ON_DEVICES = """
from busbw.worker.backends import values
from busbw.worker.backends.jax import program as check
right_init = program.CollectiveProgram.__init__
put(program.CollectiveProgram, "__init__", lambda self, case, mesh, **options: right_init(
    self, case, mesh, **{**options, "virtual": False}))
put(check, "_CHECKED_AT_ONCE", 64)
"""

NOT_ON_THE_HOST = """
def check(self, rank, number, iterations, got):
    raise AssertionError(f"rank {rank} was looked at on the host")
put(values.Values, "check", check)
"""

OFF_BY_ONE_BIT = """
right = program.CollectiveProgram.run
def run(self, iterations):
    right(self, iterations)
    self._result = self._result.at[{place}].multiply(1 + 2**-23)
put(program.CollectiveProgram, "run", run)
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
def test_what_is_right_is_found_right_without_the_host(
    results: Results, name: str, size: int
) -> None:
    run_of(results, f"{name} {size}")


@pytest.mark.parametrize("name", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("place", PLACES)
def test_a_wrong_element_is_found_wherever_it_is_and_named_by_the_host(
    results: Results, name: str, place: int
) -> None:
    found = results[f"{name} wrong at {place}"]
    real.refused(found, FailureKind.WRONG_RESULT, f"rank 2, element {place}: ")
