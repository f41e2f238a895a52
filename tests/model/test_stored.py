"""What no Case, key, time or date can be is refused, with the field first."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model import check_case, check_date, check_key, check_seconds
from tests import build


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"payload_bytes": 0}, "payload_bytes: expected 1 to "),
        ({"payload_bytes": 10**16}, "payload_bytes: expected 1 to "),
        ({"ranks": 0}, "ranks: expected 1 to 1000000, got 0"),
        ({"ranks": 10**12}, "ranks: expected 1 to 1000000"),
        ({"mesh": "2x"}, "mesh: '2x' is not a mesh"),
        ({"mesh": "1" * 5000}, "mesh: expected one such as 2x4"),
        ({"mesh": "2x2", "axes": "z"}, "axes: expected some of xy, got 'z'"),
        ({"mesh": "2x2", "axes": "xx"}, "axes: expected some of xy, got 'xx'"),
        ({"mesh": "2x4", "axes": "x"}, "mesh: 2x4 is not of 4 ranks"),
        ({"axes": "x"}, "axes: expected none without a mesh"),
    ],
)
def test_a_case_that_cannot_be_measured(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_case(build.case(**changes))
    assert says in str(refused.value)


def test_a_case_that_can_be_measured() -> None:
    check_case(build.case())
    check_case(build.case(mesh="2x2", axes="xy", ranks=4))
    # A mesh of chips with two cores each.
    check_case(build.case(mesh="2x2", ranks=8))


@pytest.mark.parametrize("name", ["ranks", "hosts", "processes", "cores"])
def test_a_key_counts_from_1(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected 1 to 1000000, got -4"):
        check_key(build.key(**{name: -4}))
    check_key(build.key(cores=None, mesh="4x4"))


@pytest.mark.parametrize("seconds", [0.0, -0.0, -1.0, 1e-13, 2e6, float("inf"), float("nan")])
def test_a_time_that_nothing_takes(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"^times_s: expected 1e-12 to 1e\+06 seconds"):
        check_seconds("times_s", seconds)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-1", "20260101", "1" * 5000])
def test_a_date_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^date: expected a date such as 2026-01-31"):
        check_date("date", text)
    check_date("date", "2026-01-31")
