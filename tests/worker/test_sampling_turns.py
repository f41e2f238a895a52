"""Samples a turn at a time, the anchor beside them, and an injected tail; scripted programs."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model import Extra, Injection
from busbw.worker.sampling import ANCHOR_S, MOST_PASSES

from .scripted import PASS_S, SURE, Backend, Program, sampled, sampler

LONG_S = 1e6


def test_begin_warms_up_and_calibrates_but_takes_no_sample() -> None:
    program = Program(lambda _: 2**-10)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, 0, 1, 0, 8, 0, 12]
    assert not taking.enough
    assert taking.values_checked == SURE * len(program.runs)


def test_a_stall_while_calibrating_is_tried_again_and_ends_nothing_early() -> None:
    # Turns: two to warm up, then the shortest chain, which stalls.
    program = Program(lambda turn: 2**-10 if turn != 2 else 0.5)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, *[0, 1] * 2, 0, 8, 0, 12]


def test_what_stalls_twice_is_what_it_takes() -> None:
    program = Program(lambda turn: 2**-10 if turn < 2 else 0.5)
    taking = sampler(program)
    taking.begin()
    assert program.calls == [1, 1, *[0, 1] * 2]


def test_begin_for_single_calls_warms_up_only() -> None:
    program = Program(lambda _: 2**-10)
    sampler(program).begin(single=True)
    assert program.calls == [1, 1]


@pytest.mark.parametrize(("single", "calls"), [(False, [0, 1]), (True, [1])])
def test_each_turn_is_one_sample(single: bool, calls: list[int]) -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program)
    taking.begin(single=single)
    begun = len(program.calls)
    for count in (1, 2, 3):
        taking.turn()
        assert program.calls[begun:] == count * calls
        assert len(taking.sampled().samples_s) == count


def test_there_are_enough_when_there_are_as_many_as_the_plan_wants() -> None:
    taking = sampler(Program(lambda _: 1.0), samples=3)
    taking.begin()
    found = []
    for _ in range(3):
        taking.turn()
        found.append(taking.enough)
    assert found == [False, False, True]


def test_turns_beyond_enough_are_samples_too() -> None:
    taking = sampler(Program(lambda _: 1.0), samples=2)
    taking.begin()
    for _ in range(5):
        taking.turn()
    assert taking.sampled().samples_s == (1.0,) * 5


def test_before_the_first_turn_no_time_has_been_spent() -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program, budget_s=500.0)
    taking.begin()
    program.clock_s += LONG_S
    assert not taking.enough
    taking.turn()
    assert not taking.enough


def test_with_a_budget_for_it_the_anchor_stands_beside_every_sample() -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program, samples=5, anchor_budget_s=LONG_S)
    taking.begin()
    assert program.anchors == [0, 1]
    begun = len(program.events)
    while not taking.enough:
        taking.turn()
    names = [name for name, _ in program.events[begun:]]
    assert names == ["fresh", "run", "run", "check", "anchor"] * 5
    assert taking.anchors_s == [PASS_S] * (1 + 5)


def test_the_anchor_is_compiled_by_a_call_without_a_pass_that_is_no_sample() -> None:
    program = Program(lambda _: 1.0, pass_s=lambda turn: [9.0, 2.0, 3.0, 4.0, 5.0, 6.0][turn])
    taking = sampler(program, anchor_budget_s=LONG_S)
    sampled(taking)
    assert program.anchors[0] == 0
    assert taking.anchors_s == [2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("pass_s", [2**-7, 2**-10, 2**-13, 2**-16])
def test_passes_are_so_many_that_an_anchor_lasts_long_enough(pass_s: float) -> None:
    program = Program(lambda _: 1.0, pass_s=lambda _: pass_s)
    taking = sampler(program, anchor_budget_s=LONG_S)
    sampled(taking)
    (passes,) = set(program.anchors[-4:])
    assert ANCHOR_S <= passes * pass_s < 3 * max(ANCHOR_S, pass_s)
    assert taking.anchors_s == [pass_s] * 5


def test_passes_have_an_end_however_short_they_are() -> None:
    program = Program(lambda _: 1.0, pass_s=lambda _: 0.0)
    taking = sampler(program)
    sampled(taking)
    assert max(program.anchors) == MOST_PASSES
    assert set(taking.anchors_s) == {0.0}


def test_what_is_tried_before_the_passes_are_enough_is_no_sample() -> None:
    program = Program(lambda _: 1.0, pass_s=lambda turn: 1e-6 if turn < 2 else 1e-3)
    taking = sampler(program, anchor_budget_s=LONG_S)
    sampled(taking)
    assert taking.anchors_s == pytest.approx([1e-3] * 5)


def test_when_the_anchor_s_budget_is_over_samples_go_on_without_it() -> None:
    taking = sampler(Program(lambda _: 1.0), samples=9, anchor_budget_s=3 * PASS_S)
    assert len(sampled(taking).samples_s) == 9
    assert taking.anchors_s == [PASS_S] * 3


def test_without_a_budget_there_is_no_anchor() -> None:
    program = Program(lambda _: 1.0)
    taking = sampler(program, anchor_budget_s=0.0)
    sampled(taking)
    assert (program.anchors, taking.anchors_s) == ([], [])
    assert "anchoring" not in taking.phases.spent_s


def test_what_the_anchor_takes_is_in_no_sample() -> None:
    program = Program(lambda _: 1.0, call_s=lambda _: 0.25, pass_s=lambda _: 64.0)
    found = sampled(sampler(program, anchor_budget_s=LONG_S))
    assert (found.samples_s, found.dispatch_s) == ((1.0,) * 4, 0.25)


def _asleep(samples: int, *, single: bool = False, **amount: Any) -> tuple[float, ...]:
    """Samples of a second each with an injected tail."""
    asleep = Injection(extra=Extra.SLEEP, **amount)
    taking = sampler(Program(lambda _: 1.0), samples=samples, asleep=asleep, payload_bytes=4096)
    return sampled(taking, single=single).samples_s


@pytest.mark.parametrize("single", [False, True])
def test_an_injected_sleep_is_in_every_fourth_sample_only(single: bool) -> None:
    awake, slow = (1.0,) * 3, (1.5,)
    assert _asleep(9, single=single, seconds=0.5) == (*awake, *slow, *awake, *slow, 1.0)


@pytest.mark.parametrize(
    ("amount", "seconds"),
    [({"seconds": 0.5}, 0.5), ({"share": 0.25}, 0.25), ({"seconds_per_byte": 2**-12}, 1.0)],
)
def test_a_sleep_is_as_long_as_asked_in_seconds_as_a_share_or_by_payload(
    amount: dict[str, Any], seconds: float
) -> None:
    assert _asleep(4, **amount) == (1.0, 1.0, 1.0, 1.0 + seconds)


def test_the_host_does_not_sleep_while_warming_up_or_calibrating() -> None:
    program = Program(lambda _: 2**-10)
    backend = Backend(program)
    asleep = Injection(extra=Extra.SLEEP, seconds=0.5)
    sampled(sampler(program, backend=backend, asleep=asleep, samples=3))
    assert backend.slept_s == []


def test_without_an_injection_nobody_sleeps() -> None:
    program = Program(lambda _: 1.0)
    backend = Backend(program)
    assert sampled(sampler(program, backend=backend, samples=8)).samples_s == (1.0,) * 8
    assert backend.slept_s == []
