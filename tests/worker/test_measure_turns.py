"""One case a turn at a time, so that another worker can be measured in turn; and injections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.launch import Failure, Injection, LaunchId, Run
from busbw.model.words import Extra, FailureKind, FoundBy
from busbw.worker import host
from busbw.worker.backends.base import MemoryNeed
from busbw.worker.measure import MeasureSession
from tests import build

from .scripted import SURE, Backend, Program

DELAY = Injection(extra=Extra.DELAY, seconds=0.5)


def _plan(**changes: Any) -> Any:
    return build.plan(**{"samples": 4, "budget_s": 1e6, **changes})


def _desk(program: Program, need: MemoryNeed | None = None) -> tuple[MeasureSession, Backend]:
    backend = Backend(program, need)
    return MeasureSession(backend=backend, launch=LaunchId.parse("2.1")), backend


def _varied() -> Program:
    return Program(lambda turn: 1.0 + turn % 3, call_s=lambda turn: 0.25 * (turn % 2))


def _run(found: Run | Failure) -> Run:
    assert isinstance(found, Run), found
    return found


def _in_turns(desk: MeasureSession, injection: Injection | None = None) -> Run:
    assert desk.open(build.case(), _plan(), None, injection) is None
    while not desk.enough:
        assert desk.turn() is None
    return _run(desk.close())


@pytest.mark.parametrize("injection", [None, DELAY])
def test_open_turns_and_close_give_the_same_as_measuring_at_once(
    injection: Injection | None,
) -> None:
    by_turns, _ = _desk(_varied())
    at_once, _ = _desk(_varied())
    measured = at_once.measure(build.case(), _plan(), None, injection)
    assert _in_turns(by_turns, injection) == _run(measured)


def test_while_a_case_is_open_its_program_is_kept_and_let_go_of_at_its_end() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    desk.open(build.case(), _plan())
    desk.turn()
    assert not backend.released
    desk.close()
    assert backend.released


def test_turns_say_when_there_are_enough_and_may_go_on() -> None:
    desk, _ = _desk(Program(lambda _: 1.0))
    desk.open(build.case(), _plan(samples=2))
    said = []
    for _ in range(4):
        desk.turn()
        said.append(desk.enough)
    assert said == [False, True, True, True]
    assert _run(desk.close()).samples_s == (1.0,) * 4


def test_one_case_after_another_can_be_open_at_the_same_desk() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    first, second = _in_turns(desk), _in_turns(desk)
    assert len(first.samples_s) == len(second.samples_s) == 4
    assert backend.prepared_cases == [build.case()] * 2


def test_to_open_a_case_while_another_is_open_lets_go_of_that_one() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    desk.open(build.case(), _plan())
    desk.turn()
    wrong_world = build.key(device_kind="another world")
    assert isinstance(desk.open(build.case(), _plan(), wrong_world), Failure)
    assert backend.released
    assert len(_in_turns(desk).samples_s) == 4


def test_waiting_for_the_other_side_s_turn_has_a_phase_of_its_own() -> None:
    program = Program(lambda _: 1.0)
    desk, _ = _desk(program)
    desk.open(build.case(), _plan())
    for _ in range(3):
        program.clock_s += 1000.0
        desk.turn()
    run = _run(desk.close())
    assert run.phases_s["waiting"] == 3000.0
    assert run.phases_s["sampling"] == 3.0
    assert run.phases_s["compiling"] == 0.0


@pytest.mark.parametrize("wrong_at", [0, 2])
def test_what_is_wrong_before_the_first_turn_ends_the_case_as_it_is_opened(wrong_at: int) -> None:
    desk, backend = _desk(Program(lambda _: 1.0, wrong_at=wrong_at))
    failure = desk.open(build.case(), _plan())
    assert failure is not None
    assert (failure.kind, failure.launch.text) == (FailureKind.WRONG_RESULT, "2.1")
    assert backend.released


def test_what_is_wrong_in_a_turn_ends_the_case_with_that_turn() -> None:
    # Two chains to warm up and one to calibrate come before the first sample.
    desk, backend = _desk(Program(lambda _: 1.0, wrong_at=4))
    assert desk.open(build.case(), _plan()) is None
    assert desk.turn() is None
    failure = desk.turn()
    assert failure is not None
    assert failure.kind is FailureKind.WRONG_RESULT
    assert backend.released


def test_every_value_of_every_turn_is_counted() -> None:
    program = _varied()
    desk, _ = _desk(program)
    assert _in_turns(desk).values_checked == SURE * len(program.runs)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> MemoryNeed:
    """What a large case needs, where nobody says how much there is."""
    monkeypatch.setattr(host, "headroom", lambda limit_bytes: None)
    return MemoryNeed(needed_bytes=2**30, really_taken=False)


@pytest.mark.parametrize("way", [_in_turns, lambda desk: desk.measure(build.case(), _plan())])
def test_the_memory_of_a_large_case_is_held_until_it_is_let_go_of(
    large: MemoryNeed, way: Callable[[MeasureSession], Run]
) -> None:
    desk, backend = _desk(Program(lambda _: 1.0), large)
    _run(way(desk))
    assert not backend.released
    desk.release()
    assert backend.released


def test_to_let_go_of_nothing_is_no_error() -> None:
    desk, _ = _desk(Program(lambda _: 1.0))
    desk.release()
    assert len(_in_turns(desk).samples_s) == 4


def test_a_run_names_what_was_injected_and_the_back_end_hears_of_it() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    delay = Injection(extra=Extra.DELAY, share=0.05)
    run, plain = _in_turns(desk, delay), _in_turns(desk)
    assert (run.injected, plain.injected) == ("delay:5%", "")
    # This program takes no longer for it.
    assert (run.injected_ratio, plain.injected_ratio) == (1.0, None)
    assert backend.injections == [delay, None]


def test_a_case_that_an_injection_does_not_apply_to_is_an_ordinary_one() -> None:
    desk, backend = _desk(Program(lambda _: 1.0))
    run = _in_turns(desk, replace(DELAY, payloads=(1, 2)))
    assert (run.injected, run.samples_s) == ("", (1.0,) * 4)
    assert backend.injections == [None]


def test_an_injected_memory_limit_refuses_what_would_fit_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        host,
        "headroom",
        lambda limit_bytes: host.Headroom(
            available_bytes=limit_bytes or 10**9, capacity_bytes=limit_bytes or 10**9
        ),
    )
    need = MemoryNeed(needed_bytes=101, really_taken=False)
    limit = Injection(extra=Extra.MEMORY, limit_bytes=100)
    desk, backend = _desk(Program(lambda _: 1.0), need)
    assert _in_turns(desk).injected == ""
    failure = desk.open(build.case(), _plan(), None, limit)
    assert failure is not None
    assert (failure.kind, failure.found) == (FailureKind.OUT_OF_MEMORY, FoundBy.PREDICTED)
    assert (failure.needed_bytes, failure.available_bytes) == (101, 100)
    assert len(backend.prepared_cases) == 1
