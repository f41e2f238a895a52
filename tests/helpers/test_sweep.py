"""What the gate has of a sweep."""

from __future__ import annotations

import pytest

from tests.helpers.sweep import sweep


def _marks(case: object) -> list[str]:
    return [mark.name for mark in getattr(case, "marks", ())]


def test_all_but_the_first_are_exhaustive() -> None:
    assert sweep([1]) == [1]
    first, *others = sweep(["a", "b", "c"])
    assert first == "a"
    assert [one.values for one in others] == [("b",), ("c",)]
    assert [_marks(one) for one in others] == [["exhaustive"]] * 2


def test_as_many_as_asked_for_are_in_the_gate_and_values_ids_and_marks_are_kept() -> None:
    named = pytest.param(3, 4, marks=pytest.mark.slow, id="named")
    cases = sweep([(1, 2), (3, 4), (5, 6), named], in_gate=2)
    assert cases[:2] == [(1, 2), (3, 4)]
    assert cases[2].values == (5, 6)
    assert (cases[3].values, cases[3].id) == ((3, 4), "named")
    assert _marks(cases[3]) == ["slow", "exhaustive"]
