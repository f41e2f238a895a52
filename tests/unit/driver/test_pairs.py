"""Pairs: two sides in turn, A B B A, and what becomes of one when the other fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalWorker
from busbw.driver.schedules import Schedule, Side
from busbw.driver.transport import Starter
from busbw.model.case import Case
from busbw.model.launch import Injection, Measurement, Plan
from busbw.model.words import Extra, FailureKind
from tests.helpers.sweep import sweep
from tests.helpers.workers import KEY, PLAN, Watched, case, keyed, stack, starter

pytestmark = pytest.mark.workers

R, C = Side.REFERENCE, Side.CANDIDATE
SMALL, DYING, OTHER = (case(size) for size in (1024, 2048, 4096))
LARGE = case(2**28)
TWO = (case(1024), case(2048))
TPU_KEY = replace(KEY, device_kind="Fake TPU")


@dataclass
class Log:
    """What the driver did with workers, in order: launch and event; and a kill before an event."""

    events: list[tuple[str, str]] = field(default_factory=list)
    kill_before: tuple[str, str] = ("", "")

    def add(self, worker: LocalWorker, event: str) -> None:
        self.events.append((worker.launch.text, event))
        if self.kill_before == (worker.launch.text, event):
            os.kill(worker.pid, signal.SIGKILL)

    def sides(self, event: str) -> str:
        """Whose turn each of these was: r for the reference, c for the candidate."""
        return "".join(launch.split(".")[2][0] for launch, name in self.events if name == event)

    @property
    def lives(self) -> list[str]:
        """Beginnings and ends of workers, such as ``start 1.r``."""
        return [
            f"{event} {launch[0]}.{launch.split('.')[2][0]}"
            for launch, event in self.events
            if event in ("start", "end")
        ]


@pytest.fixture
def log() -> Log:
    return Log()


Make = Callable[..., Schedule]


@pytest.fixture
def pairs(bundle: Bundle, log: Log) -> Make:
    """Makes pairs of the fake back end over these cases, by default one pair of launches."""

    def make(
        *cases: Case,
        reference: Starter | None = None,
        candidate: Starter | None = None,
        **more: Any,
    ) -> Schedule:
        ordinary: dict[str, Any] = {"cases": keyed(*cases), "plan": PLAN, "shared": True}
        ordinary["stacks"] = {R: stack(reference), C: stack(candidate)}
        executor = Executor(Watched(bundle, log.add))
        return Schedule(executor, **{**ordinary, **more})

    return make


def by_case(schedule: Schedule, side: Side) -> dict[Case, Measurement]:
    return {measurement.case: measurement for measurement in schedule.measurements(side)}


def runs(schedule: Schedule, side: Side) -> list[int]:
    """Count the runs that each case has, in the order of the cases."""
    return [len(measurement.runs) for measurement in schedule.measurements(side)]


def kinds(schedule: Schedule, side: Side) -> list[list[FailureKind]]:
    measurements = schedule.measurements(side)
    return [[failure.kind for failure in measurement.failures] for measurement in measurements]


def plan(**changes: Any) -> Plan:
    return replace(PLAN, **changes)


def test_both_sides_take_their_samples_of_a_case_in_turn_a_b_b_a(pairs: Make, log: Log) -> None:
    pairs(SMALL, plan=plan(samples=6)).run()
    assert log.sides("open") == "rc"
    assert log.sides("turn") == "rccrrccrrccr"
    assert log.sides("close") == "rc"


def test_who_begins_changes_from_pass_to_pass_a_b_b_a(pairs: Make, log: Log) -> None:
    pairs(SMALL, plan=plan(launches=5, samples=1)).run()
    assert log.sides("turn") == log.sides("start") == "rc cr cr rc rc".replace(" ", "")


@pytest.mark.exhaustive
def test_both_sides_have_as_many_samples_though_one_had_enough_before(pairs: Make) -> None:
    # By itself the slow one would have enough after a single sample.
    schedule = pairs(SMALL, reference=starter(latency_s=1.0), plan=plan(samples=5))
    schedule.run()
    (slow,), (quick,) = (schedule.measurements(side) for side in Side)
    assert len(slow.runs[0].samples_s) == len(quick.runs[0].samples_s) == 5
    assert min(slow.runs[0].samples_s) > max(quick.runs[0].samples_s)


def test_large_cases_are_measured_one_side_after_the_other_and_let_go_of(
    pairs: Make, log: Log
) -> None:
    # A device with memory of its own: nothing is predicted and none of it is taken.
    script = starter(device="tpu", device_kind="Fake TPU")
    pairs(LARGE, cases=keyed(LARGE, key=TPU_KEY), reference=script, candidate=script).run()
    assert [event for event in log.events if event[1] in ("measure", "release")] == [
        ("1.fake.reference", "measure"),
        ("1.fake.reference", "release"),
        ("1.fake.candidate", "measure"),
        ("1.fake.candidate", "release"),
    ]
    assert log.sides("turn") == ""


@pytest.mark.exhaustive
def test_where_only_one_can_have_the_devices_launches_take_turns_a_b_b_a(
    pairs: Make, log: Log
) -> None:
    schedule = pairs(SMALL, OTHER, shared=False, plan=plan(launches=4))
    schedule.run()
    order = ["1.r", "1.c", "2.c", "2.r", "3.c", "3.r", "4.r", "4.c"]
    assert log.lives == [f"{event} {launch}" for launch in order for event in ("start", "end")]
    assert log.sides("turn") == ""
    assert runs(schedule, R) == runs(schedule, C) == [4, 4]


@pytest.mark.parametrize("dying", sweep(Side))
def test_a_worker_that_dies_fails_its_case_on_its_side_and_new_ones_take_the_rest(
    pairs: Make, dying: Side, log: Log
) -> None:
    script = starter(cases=[{"payload_bytes": DYING.payload_bytes, "then": "kill"}])
    schedule = pairs(SMALL, DYING, OTHER, **{dying.value: script})
    schedule.run()
    living = R if dying is C else C
    assert runs(schedule, living) == [1, 1, 1]
    assert runs(schedule, dying) == [1, 0, 1]
    assert kinds(schedule, dying) == [[], [FailureKind.KILLED], []]
    assert kinds(schedule, living) == [[], [], []]
    (failure,) = by_case(schedule, dying)[DYING].failures
    assert failure.launch.text == f"1.fake.{dying.value}"
    assert failure.message.endswith("while measuring fake.all_reduce.fake.float32.2K")
    _check_launches(schedule, log)


def _check_launches(schedule: Schedule, log: Log) -> None:
    """Pairs are of the same launch on both sides; the second has a name of its own."""
    launches = [
        [
            run.launch.text.replace(side.value, "")
            for m in schedule.measurements(side)
            for run in m.runs
        ]
        for side in Side
    ]
    assert set(launches[0]) | set(launches[1]) <= {"1.fake.", "1.fake..2"}
    ended = [launch for launch, event in log.events if event == "end"]
    # One that died ended as it did, the other as it was closed.
    assert sorted(ended) == sorted(launch for launch, event in log.events if event == "start")


def test_a_worker_that_dies_in_mid_turn_fails_and_the_other_goes_on_alone(
    pairs: Make, log: Log
) -> None:
    log.kill_before = ("1.fake.candidate", "turn")
    schedule = pairs(SMALL, plan=plan(samples=3))
    schedule.run()
    assert (runs(schedule, R), runs(schedule, C)) == ([1], [0])
    assert kinds(schedule, C) == [[FailureKind.KILLED]]
    assert log.sides("turn") == "rcrr"
    assert len(schedule.measurements(R)[0].runs[0].samples_s) == 3


@pytest.mark.exhaustive
def test_a_worker_that_dies_at_the_end_of_a_case_gave_no_run(pairs: Make, log: Log) -> None:
    log.kill_before = ("1.fake.reference", "close")
    schedule = pairs(SMALL, OTHER)
    schedule.run()
    assert sorted(runs(schedule, R)) == [0, 1]
    assert sorted(kinds(schedule, R)) == [[], [FailureKind.KILLED]]
    assert runs(schedule, C) == [1, 1]


@pytest.mark.parametrize("lacking", sweep(Side))
def test_a_side_that_runs_out_of_memory_leaves_the_other_measured_alone(
    pairs: Make, lacking: Side, log: Log
) -> None:
    script = starter(cases=[{"payload_bytes": DYING.payload_bytes, "then": "out_of_memory"}])
    schedule = pairs(SMALL, DYING, OTHER, **{lacking.value: script})
    schedule.run()
    other = R if lacking is C else C
    assert (runs(schedule, lacking), runs(schedule, other)) == ([1, 0, 1], [1, 1, 1])
    assert kinds(schedule, lacking) == [[], [FailureKind.OUT_OF_MEMORY], []]
    # It answered: the same processes go on.
    assert log.lives == ["start 1.r", "start 1.c", "end 1.r", "end 1.c"]


@pytest.mark.exhaustive
def test_where_a_large_case_kills_one_side_the_other_is_measured_and_not_asked_for_more(
    pairs: Make, log: Log
) -> None:
    log.kill_before = ("1.fake.reference", "measure")
    script = starter(device="tpu", device_kind="Fake TPU")
    schedule = pairs(LARGE, cases=keyed(LARGE, key=TPU_KEY), reference=script, candidate=script)
    schedule.run()
    assert (runs(schedule, R), runs(schedule, C)) == ([0], [1])
    assert kinds(schedule, R) == [[FailureKind.KILLED]]
    assert log.sides("release") == ""


@pytest.mark.parametrize("shared", sweep([True, False]))
@pytest.mark.parametrize("broken", sweep(Side))
def test_a_side_that_does_not_start_fails_in_every_case(
    pairs: Make, broken: Side, shared: bool
) -> None:
    false = starter("/bin/false")
    begin = {side: false if side is broken else None for side in Side}
    running = pairs(
        *TWO, reference=begin[R], candidate=begin[C], shared=shared, plan=plan(launches=2)
    )
    running.run()
    for measurement in running.measurements(broken):
        assert not measurement.runs
        kinds_of_side = [failure.kind for failure in measurement.failures]
        assert kinds_of_side == [FailureKind.CRASHED] * 2
        assert "while starting" in measurement.failures[0].message
    other = running.measurements(R if broken is C else C)
    assert not any(measurement.failures for measurement in other)
    # Nobody to be in turn with: nothing is measured where both would be alive at once.
    assert [len(measurement.runs) for measurement in other] == ([0, 0] if shared else [2, 2])


@pytest.mark.parametrize("shared", sweep([True, False]))
def test_an_injection_applies_to_the_candidate_alone_and_its_payloads_alone(
    pairs: Make, shared: bool
) -> None:
    delay = Injection(extra=Extra.DELAY, share=0.5, payloads=(1024,))
    running = pairs(*TWO, shared=shared, stacks={R: stack(), C: stack(injection=delay)})
    running.run()
    slowed, spared = running.measurements(C)
    before, same = running.measurements(R)
    assert [slowed.runs[0].injected, spared.runs[0].injected] == ["delay:50%@1K", ""]
    assert [before.runs[0].injected, same.runs[0].injected] == ["", ""]
    slower = [now / was for now, was in zip(slowed.runs[0].samples_s, before.runs[0].samples_s)]
    assert slower == pytest.approx([1.5] * 2)
    assert spared.runs[0].samples_s == pytest.approx(same.runs[0].samples_s)
