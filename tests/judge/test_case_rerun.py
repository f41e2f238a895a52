"""Which cases are measured again: the undecided, and beside a suspect its neighbours in size."""

from __future__ import annotations

from typing import Any

from busbw.judge.case import Rerun, Ruling, rerun
from busbw.model.case import Spec
from busbw.model.words import Outcome
from tests import build

SPECS = [build.spec(payload_bytes=1024 << place) for place in range(5)]
THREE = dict.fromkeys(SPECS, 3)


def _judged(spec: Spec, wanted: int | None = None, **changes: Any) -> Ruling:
    suspected = changes.pop("suspected", False)
    verdict = build.verdict(Outcome.PASS, spec=spec, **changes)
    return Ruling(verdict=verdict, wanted=wanted, suspected=suspected)


def _grid(**of_place: Ruling) -> dict[Spec, Ruling]:
    """Decided cases, but those at these places, such as ``at2``."""
    return {spec: of_place.get(f"at{i}", _judged(spec)) for i, spec in enumerate(SPECS)}


def test_where_all_is_decided_nothing_more_is_measured() -> None:
    assert rerun(_grid(), THREE) == Rerun(specs=(), passes=0)


def test_an_undecided_case_is_measured_alone_in_what_it_lacks() -> None:
    found = rerun(_grid(at2=_judged(SPECS[2], 9)), THREE)
    assert found == Rerun(specs=(SPECS[2],), passes=6)


def test_of_a_suspect_the_two_next_sizes_are_measured_too() -> None:
    found = rerun(_grid(at2=_judged(SPECS[2], 6, suspected=True)), THREE)
    assert found == Rerun(specs=tuple(SPECS[1:4]), passes=3)


def test_at_the_end_of_the_grid_both_are_on_one_side() -> None:
    first = rerun(_grid(at0=_judged(SPECS[0], 6, suspected=True)), THREE)
    assert first.specs == tuple(SPECS[:3])
    last = rerun(_grid(at4=_judged(SPECS[4], 6, suspected=True)), THREE)
    assert last.specs == tuple(SPECS[2:])


def test_a_neighbour_is_of_the_same_kind_and_was_measured() -> None:
    other = build.spec(payload_bytes=2048, dtype="bfloat16")
    judged = _grid(
        at2=_judged(SPECS[2], 6, suspected=True), at1=_judged(SPECS[1], now=None, failed=True)
    )
    judged[other] = _judged(other)
    assert rerun(judged, {**THREE, other: 3}).specs == (SPECS[0], SPECS[2], SPECS[3])


def test_so_many_passes_that_the_first_case_has_what_it_wants() -> None:
    judged = _grid(at0=_judged(SPECS[0], 9), at4=_judged(SPECS[4], 5))
    assert rerun(judged, THREE) == Rerun(specs=(SPECS[0], SPECS[4]), passes=2)


def test_what_has_the_launches_that_it_wants_is_not_measured_again() -> None:
    judged = _grid(at0=_judged(SPECS[0], 9), at1=_judged(SPECS[1], 6))
    assert rerun(judged, {**THREE, SPECS[1]: 6}) == Rerun(specs=(SPECS[0],), passes=6)
