"""What is hit, and what that may cost: everything more is a surprise, and counted in the table."""

from __future__ import annotations

import signal
from collections import Counter
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from kills.__main__ import table
from kills.hits import LAYOUTS, LEAVING, MEASURING, MOMENTS, Hit, Ran, drawn, surprises

WHY = "the worker was killed (SIGKILL) while measuring jax.all_reduce.psum.float32.1K"
LOST: dict[str, Any] = {
    "exit_code": 1,
    "lost": 1,
    "failures": (WHY,),
    "said": f"test session\nFAILED: killed in 1 of 2 launches: {WHY}\n",
}
ENDED: dict[str, Any] = {"lost": None}
FOLDER = ("busbw-0.a",)


def ran(target: str = "worker", sent: signal.Signals = SIGKILL, **changes: Any) -> Ran:
    return Ran(hit=Hit(target=target, signal=sent, moment=MEASURING), **changes)


def unexpected(one: Ran) -> str:
    """The last column of the table, which has one row for this."""
    *_, row = table("local", [one])
    return row.split(" | ")[-1].strip(" |")


@pytest.mark.parametrize(
    "one",
    [
        ran(),
        ran(**LOST),
        ran("agent", **LOST),
        ran("session", SIGSTOP),
        ran("session", exit_code=-9, folders=FOLDER, **ENDED),
        ran("session", SIGTERM, exit_code=-15, folders=FOLDER, **ENDED),
        ran("session", SIGINT, exit_code=2, **ENDED),
        # It came when all was done.
        ran("session", SIGINT, exit_code=-2),
        ran("session", struck=False),
    ],
)
def test_what_a_hit_has_to_cost_is_no_surprise(one: Ran) -> None:
    assert list(surprises(one)) == []
    assert unexpected(one) == "0"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (ran(left=("process 7",)), "left: process 7"),
        (ran(folders=FOLDER), "left: busbw-0.a"),
        (ran(exit_code=None), "the session never ended"),
        (ran(exit_code=4, **ENDED), "no results, exit code 4"),
        (ran(exit_code=1), "exit code 1 with 0 lost"),
        (ran(**LOST | {"lost": 3}), "3 lost by one hit"),
        (ran(**LOST | {"failures": ("as it left",)}), "lost while nothing was measured"),
        (ran(**LOST | {"said": "FINE: 7 cases measured"}), "lost and not said"),
        (ran(**LOST | {"exit_code": 0}), "exit code 0 with 1 lost"),
        (ran(**LOST, green=("1K is PASS",)), "lost and 1K is PASS"),
        (ran("session", SIGINT, exit_code=0, **ENDED), "exit code 0, expected 2"),
        (ran("session", SIGINT, exit_code=2, folders=FOLDER, **ENDED), "left: busbw-0.a"),
        (ran("session", SIGSTOP, lost=1), "1 lost"),
        (ran("session", exit_code=0, **ENDED), "exit code 0, expected -9"),
    ],
)
def test_what_is_more_is_said_in_words_and_counted(one: Ran, said: str) -> None:
    assert list(surprises(one)) == [said]
    assert unexpected(one) == "1"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_signal_to_everything_comes_in_every_part_of_a_session(layout: Any) -> None:
    every = len(layout.targets) * len(layout.signals) * len(MOMENTS)
    hits = drawn(layout, 2 * every, 1)
    counted = Counter((hit.target, hit.signal, hit.moment) for hit in hits)
    assert len(counted) == every and set(counted.values()) == {2}
    assert {hit.member for hit in hits} == ({""} if layout.members == 1 else {"0", "1"})
    assert all(0.1 <= hit.fraction <= 0.9 for hit in hits)
    assert {hit.launch for hit in hits if hit.moment == LEAVING} == {1}
    assert {hit.launch for hit in hits if hit.moment == MEASURING} == {1, 2}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    local = LAYOUTS["local"]
    assert drawn(local, 20, 1) == drawn(local, 20, 1) != drawn(local, 20, 2)
