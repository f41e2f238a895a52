"""Rounds of a single stack: every case in every launch, shuffled by the seed, worker by worker."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.driver import schedules
from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.local import LocalWorker
from busbw.driver.schedules import (
    RoundRunner,
    Side,
    StackWorkers,
    shuffle_cases,
)
from busbw.driver.transport import Request, WorkerSpec
from busbw.model.case import Case
from busbw.model.launch import Measurement, PreviousPace
from busbw.model.machine import EnvironmentKey
from tests.helpers.sweep import sweep
from tests.helpers.workers import (
    KEY,
    PLAN,
    Watched,
    case,
    executor,
    keyed,
    processes,
    stack,
    worker_spec,
)

pytestmark = pytest.mark.workers

SMALL = tuple(2**power for power in range(10, 18))
LARGE = (2**28, 2**29, 2**30)


def make_schedule(
    executor: Executor,
    cases: Mapping[Case, EnvironmentKey],
    candidate: StackWorkers | None = None,
    **options: Any,
) -> RoundRunner:
    """Make a schedule with the fake back end, by default of a single round."""
    stacks = {Side.CANDIDATE: candidate or stack()}
    return RoundRunner(executor, cases, **{"plan": PLAN, "stacks": stacks, **options})


def measured(
    bundle: Bundle,
    sizes: Sequence[int],
    begin: WorkerSpec,
    *,
    launches: int = 1,
    seed: int = 0,
    key: EnvironmentKey = KEY,
    on_note: Callable[[str], None] = lambda note: None,
) -> tuple[list[Case], tuple[Measurement, ...]]:
    """Return the cases of rounds with the fake back end in their order, and the measurements."""
    measured_cases: list[Case | None] = []
    running = make_schedule(
        executor(bundle, on_note),
        keyed(*(case(size) for size in sizes), key=key),
        stack(begin),
        plan=replace(PLAN, launches=launches, seed=seed),
        observers=[measured_cases.append],
    )
    running.run()
    return [case for case in measured_cases if case is not None], running.measurements()


def order(bundle: Bundle, seed: int) -> list[int]:
    """Return the payloads of two launches in the order in which they were measured."""
    cases, _ = measured(bundle, SMALL, worker_spec(), launches=2, seed=seed)
    return [case.payload_bytes for case in cases]


@pytest.mark.exhaustive
def test_cases_are_shuffled_in_each_launch_in_an_order_that_the_seed_determines(
    bundle: Bundle,
) -> None:
    first = order(bundle, seed=1)
    assert order(bundle, seed=1) == first
    assert order(bundle, seed=2) != first
    assert first[:8] != first[8:]
    assert sorted(first[:8]) == sorted(first[8:]) == list(SMALL)


@pytest.mark.exhaustive
def test_a_worker_receives_the_chain_length_of_the_last_launch_that_measured_the_case(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    paces: list[object] = []
    ask = Group.ask

    def noted(group: Group, request: Request[Any], *rest: Any) -> Any:
        paces.append(request.values.get("pace"))
        return ask(group, request, *rest)

    monkeypatch.setattr(Group, "ask", noted)
    script = worker_spec(cases=[{"passes": [2], "then": "kill"}])
    _, (measurement,) = measured(bundle, [1024], script, launches=4)
    first, third, _ = measurement.runs
    # After a launch that gave none it is the one before that.
    assert paces == [
        None,
        PreviousPace.from_run(first),
        PreviousPace.from_run(first),
        PreviousPace.from_run(third),
    ]
    assert PreviousPace.from_run(first) == PreviousPace(
        iterations=first.iterations, time_s=first.clocks_s["host"], dispatch_s=first.dispatch_s or 0
    )


@pytest.mark.parametrize(
    ("handover", "order"),
    sweep(
        [
            (False, ["start 1", "end 1", "start 2", "end 2", "start 3", "end 3"]),
            (True, ["start 1", "start 2", "end 1", "start 3", "end 2", "end 3"]),
        ]
    ),
)
def test_a_worker_of_a_launch_ends_only_when_the_worker_of_the_next_launch_is_ready(
    bundle: Bundle, handover: bool, order: list[str]
) -> None:
    events: list[str] = []

    def watch(worker: LocalWorker, event: str) -> None:
        if event in ("start", "end"):
            events.append(f"{event} {str(worker.launch)[0]}")

    alive: list[int] = []
    running = make_schedule(
        Executor(Watched(bundle, watch)),
        keyed(case(1024)),
        plan=replace(PLAN, launches=3),
        on_progress=lambda text: alive.append(len(processes(bundle.path))),
        can_overlap=handover,
    )
    running.run()
    assert events == order
    assert alive == [1, 1, 1]
    assert not processes(bundle.path)


def test_the_first_worker_is_ready_before_the_moment_at_which_measuring_begins(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    running = make_schedule(
        Executor(Watched(bundle, lambda worker, event: events.append(event))), keyed(case(1024))
    )
    clock = SimpleNamespace(
        monotonic=lambda: 5.0, sleep=lambda wait_s: events.append(f"sleep {wait_s:g} s")
    )
    monkeypatch.setattr(schedules, "time", clock)
    running.run_rounds(tuple(running.cases), 1, begin_s=60.0)
    assert events == ["start", "listen", "sleep 55 s", "measure", "end"]


SMALL_CASES = [case(size) for size in SMALL]
LARGE_CASES = [case(size) for size in LARGE]


@pytest.mark.parametrize("seed", range(5))
def test_large_cases_are_measured_together_at_the_beginning_or_end_in_the_order_of_size(
    seed: int,
) -> None:
    cases = [*LARGE_CASES, *SMALL_CASES]
    first, last = (
        shuffle_cases(cases, random.Random(seed), is_largest_first=order) for order in (True, False)
    )
    assert (first[:3], last[-3:]) == (LARGE_CASES[::-1], LARGE_CASES)
    assert set(first) == set(last) == set(cases)
