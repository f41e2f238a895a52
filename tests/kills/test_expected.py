"""What a hit may cost: everything more is a surprise, and said on the page."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from kills.expected import surprises
from kills.hits import Hit, Target
from kills.page import page
from kills.session import Ran

FINE = "FINE: 3 cases measured in 2 launches each"
MEASURING = "the worker was killed (SIGKILL) while measuring jax.all_reduce.psum.float32.1K"
LOST: dict[str, Any] = {
    "exit_code": 1,
    "lost": 1,
    "failures": (MEASURING,),
    "said": (f"FAILED: killed in 1 of 2 launches: {MEASURING}", FINE),
}


def ran(target: Target, number: signal.Signals = signal.SIGKILL, **changes: Any) -> Ran:
    hit = Hit(number=1, target=target, signal=number, launch=1, fraction=0.5)
    given: dict[str, Any] = {
        "hit": hit,
        "at_s": 2.0,
        "exit_code": 0,
        "seconds": 12.0,
        "said": (FINE,),
        "lost": 0,
        "failures": (),
        "processes": (),
        "folders": (),
        "left": (),
    }
    return Ran(**given | changes)


ENDED: dict[str, Any] = {"lost": None, "said": ()}


@pytest.mark.parametrize(
    "one",
    [
        ran(Target.PROBE),
        ran(Target.STARTING, signal.SIGSTOP),
        ran(Target.MEASURING, **LOST),
        ran(Target.LEAVING),
        ran(Target.SESSION, signal.SIGSTOP),
        ran(Target.SESSION, signal.SIGKILL, exit_code=-9, folders=("busbw-0.a",), **ENDED),
        ran(Target.SESSION, signal.SIGTERM, exit_code=-15, folders=("busbw-0.a",), **ENDED),
        ran(Target.SESSION, signal.SIGINT, exit_code=2, **ENDED),
        ran(Target.SESSION, signal.SIGINT, exit_code=-2),
        # It was over before it could be hit.
        ran(Target.SESSION, signal.SIGKILL, at_s=None),
    ],
)
def test_what_a_hit_has_to_cost_is_no_surprise(one: Ran) -> None:
    assert surprises(one) == ()
    assert "**" not in "\n".join(page([one], about="today", seed=1))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (ran(Target.PROBE, processes=(7,)), "1 processes are left"),
        (ran(Target.PROBE, left=("x.json is new",)), "left: x.json is new"),
        (ran(Target.PROBE, folders=("busbw-0.a",)), "busbw-0.a is left"),
        (ran(Target.PROBE, exit_code=None), "the session never ended"),
        (ran(Target.PROBE, exit_code=4, **ENDED), "no results, exit code 4"),
        (ran(Target.STARTING, exit_code=1), "exit code 1 with 0 lost"),
        (ran(Target.STARTING, **LOST | {"lost": 3}), "3 lost by one hit"),
        (ran(Target.LEAVING, **LOST | {"failures": ("as it left",)}), "while nothing was measured"),
        (ran(Target.MEASURING, **LOST | {"said": (FINE,)}), "lost and not said"),
        (ran(Target.MEASURING, **LOST | {"exit_code": 0}), "exit code 0 with 1 lost"),
        (ran(Target.SESSION, signal.SIGINT, exit_code=0, **ENDED), "exit code 0, expected 2"),
        (ran(Target.SESSION, signal.SIGINT, exit_code=2, **ENDED, folders=("b",)), "b is left"),
        (ran(Target.SESSION, signal.SIGSTOP, lost=1), "1 lost"),
    ],
)
def test_what_is_more_is_said_in_words_and_stands_out_on_the_page(one: Ran, said: str) -> None:
    (surprise,) = surprises(one)
    assert said in surprise
    assert f"**{surprise}**" in "\n".join(page([one], about="today", seed=1))
