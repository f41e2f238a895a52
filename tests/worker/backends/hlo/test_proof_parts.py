"""An injected second collective: there to the last byte, beside every one, and counted."""

from __future__ import annotations

import pytest

from busbw.model import FailureKind, Proof
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.proof import Wanted
from tests import build

from . import programs
from .programs import FIRST, SECOND

PART_BYTES = 1024


def _part(name: str, shape: str = "f32[256]{0}") -> str:
    """A line as that of the payload's own, on a part of it."""
    return FIRST.replace("%psum_invariant.12 = f32[1024]{0}", f"%{name} = {shape}").replace(
        "region_1.0", "region_9.0"
    )


PARTS = (_part("pmax.1"), _part("pmax.2"))
# XLA may make one collective of several that do not wait for each other.
BOTH_IN_ONE = _part("pmax.1", "(f32[256]{0}, f32[256]{0})")


def _proof(text: str, part_bytes: int = PART_BYTES) -> Proof:
    wanted = Wanted(case=build.case(), per_round=2, strict=False, part_bytes=part_bytes)
    return proof.prove(text, wanted)


def _refused(text: str, part_bytes: int = PART_BYTES) -> str:
    with pytest.raises(MeasuringError) as caught:
        _proof(text, part_bytes)
    assert caught.value.kind is FailureKind.NOT_A_COLLECTIVE
    return str(caught.value)


@pytest.mark.parametrize(("parts", "there"), [(PARTS, 4), ((BOTH_IN_ONE,), 3)])
def test_a_second_collective_beside_each_one_is_proved_and_counted(
    parts: tuple[str, ...], there: int
) -> None:
    proof = _proof(programs.cpu(FIRST, SECOND, *parts))
    assert proof.collectives == {"all-reduce": there}
    assert (proof.array_bytes, proof.groups) == (4096, ((0, 1, 2, 3),))


@pytest.mark.parametrize("parts", [(), PARTS[:1], (*PARTS, _part("pmax.3"))])
def test_one_too_few_or_too_many_beside_them_is_refused(parts: tuple[str, ...]) -> None:
    message = _refused(programs.cpu(FIRST, SECOND, *parts))
    assert message == "expected a second collective of 1024 bytes with each one"


@pytest.mark.parametrize("part_bytes", [4, 1020, 1028, 2048])
def test_one_on_other_bytes_is_not_the_one_that_was_asked_for(part_bytes: int) -> None:
    message = _refused(programs.cpu(FIRST, SECOND, *PARTS), part_bytes)
    assert f"a second collective of {part_bytes} bytes" in message


def test_parts_that_were_taken_out_of_the_loop_are_refused() -> None:
    message = _refused(programs.cpu(FIRST, SECOND, entry=PARTS))
    assert "expected a second collective of 1024 bytes with each one" in message


def test_with_parts_the_payload_s_own_must_be_there_as_ever() -> None:
    assert "XLA compiled {'all-reduce': 1}, 1 of them there" in _refused(
        programs.cpu(FIRST, *PARTS)
    )


def test_without_an_injection_a_second_collective_is_refused() -> None:
    assert "XLA compiled {'all-reduce': 4}, 4 of them there" in _refused(
        programs.cpu(FIRST, SECOND, *PARTS), part_bytes=0
    )
