"""What a hit may cost: everything more is a surprise, and said on the page."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from kills.expected import surprises
from kills.faults import Fault, Kind
from kills.hits import Hit, Target
from kills.moments import Moment, When
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


def failed(kind: Kind, moment: Moment = Moment.MEASURING, **changes: Any) -> Ran:
    when = When(moment=moment, launch=1, fraction=0.5, member=1)
    fault = Fault(number=1, kind=kind, when=when, cut_s=5.0)
    return ran(Target.AGENT, **{"hit": fault, **changes})


ENDED: dict[str, Any] = {"lost": None, "said": ()}
ON_HOST = f"worker 1 on host2: {MEASURING}"
LOST_THERE = LOST | {"failures": (ON_HOST,)}
WHY = "an agent did not start on host2 (rank 1): Connection timed out"
GIVEN_UP: dict[str, Any] = {
    "exit_code": 1,
    "lost": 9,
    "failures": (ON_HOST, WHY),
    "said": (f"NO_VERDICT: {WHY}",),
}
NEVER_THERE: dict[str, Any] = {"exit_code": 4, "lost": None, "said": (f"ERROR: busbw: {WHY}",)}


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
        failed(Kind.AGENT),
        failed(Kind.AGENT, **LOST_THERE, folders=("busbw-0.a",)),
        failed(Kind.SSH, Moment.JOINING, **NEVER_THERE),
        failed(Kind.CUT_FOR_A_WHILE, **LOST_THERE),
        failed(Kind.HOST, **GIVEN_UP),
        failed(Kind.CUT, Moment.JOINING, **NEVER_THERE),
        # It came when all was measured, or before anything was.
        failed(Kind.CUT),
        failed(Kind.CUT, Moment.PROBE, **GIVEN_UP | {"lost": None, "failures": ()}),
        failed(Kind.SESSION, exit_code=-9, folders=("busbw-0.a",), **ENDED),
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
        (failed(Kind.AGENT, **LOST), "host2 is not named"),
        (failed(Kind.SSH, **LOST_THERE | {"lost": 2}), "2 lost by one hit"),
        (failed(Kind.SSH, **LOST_THERE, folders=("b",)), "b is left"),
        (failed(Kind.SSH, **NEVER_THERE), "no results, exit code 4"),
        (failed(Kind.CUT_FOR_A_WHILE, **GIVEN_UP | {"lost": None}), "no results, exit code 1"),
        (failed(Kind.CUT, **GIVEN_UP | {"exit_code": 0}), "exit code 0 without a verdict"),
        (failed(Kind.CUT, **GIVEN_UP, folders=("b",)), "b is left"),
        (failed(Kind.CUT, Moment.JOINING, **NEVER_THERE, folders=("b",)), "b is left"),
        (failed(Kind.HOST, exit_code=None, **ENDED), "the session never ended"),
        (failed(Kind.HOST, left=("the machine's lock of host2",)), "left: the machine's lock"),
        (failed(Kind.SESSION, exit_code=1, **ENDED), "exit code 1, expected -9"),
    ],
)
def test_what_is_more_is_said_in_words_and_stands_out_on_the_page(one: Ran, said: str) -> None:
    (surprise,) = surprises(one)
    assert said in surprise
    assert f"**{surprise}**" in "\n".join(page([one], about="today", seed=1))
