"""Schedules of two interleaved stacks, in the order A B B A, and failures of one stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalWorker
from busbw.driver.schedules import RoundRunner, Side
from busbw.driver.transport import WorkerSpec
from busbw.model.case import Case
from busbw.model.launch import MeasurementPlan
from busbw.model.words import FailureKind
from tests.helpers.sweep import sweep
from tests.helpers.workers import KEY, PLAN, Watched, case, keyed, stack, worker_spec

pytestmark = pytest.mark.workers

R, C = Side.REFERENCE, Side.CANDIDATE
SMALL, DYING, OTHER = (case(size) for size in (1024, 2048, 4096))
LARGE = case(2**28)
TWO = (case(1024), case(2048))
TPU_KEY = replace(KEY, device_kind="Fake TPU")


@dataclass
class Log:
    """The events of workers in order, each as its launch and its name."""

    events: list[tuple[str, str]] = field(default_factory=list)

    def add(self, worker: LocalWorker, event: str) -> None:
        self.events.append((str(worker.launch), event))

    def sides(self, event: str) -> str:
        """Return the side of each event of this name: r for the reference, c for the candidate."""
        return "".join(launch.split(".")[2][0] for launch, name in self.events if name == event)

    @property
    def lives(self) -> list[str]:
        """The starts and ends of workers, such as ``start 1.r``."""
        return [
            f"{event} {launch[0]}.{launch.split('.')[2][0]}"
            for launch, event in self.events
            if event in ("start", "end")
        ]


@pytest.fixture
def log() -> Log:
    return Log()


Make = Callable[..., RoundRunner]


@pytest.fixture
def pairs(bundle: Bundle, log: Log) -> Make:
    """Return a function that makes schedules of pairs, by default one pair of launches."""

    def make(
        *cases: Case,
        reference: WorkerSpec | None = None,
        candidate: WorkerSpec | None = None,
        **more: Any,
    ) -> RoundRunner:
        ordinary: dict[str, Any] = {"cases": keyed(*cases), "plan": PLAN, "can_overlap": True}
        ordinary["stacks"] = {R: stack(reference), C: stack(candidate)}
        return RoundRunner(Executor(Watched(bundle, log.add)), **{**ordinary, **more})

    return make


def runs(schedule: RoundRunner, side: Side) -> list[int]:
    """Count the runs that each case has, in the order of the cases."""
    return [len(measurement.runs) for measurement in schedule.measurements(side)]


def kinds(schedule: RoundRunner, side: Side) -> list[list[FailureKind]]:
    measurements = schedule.measurements(side)
    return [[failure.kind for failure in measurement.failures] for measurement in measurements]


def plan(**changes: Any) -> MeasurementPlan:
    return replace(PLAN, **changes)


def test_samples_of_two_stacks_alternate_in_the_order_a_b_b_a(pairs: Make, log: Log) -> None:
    pairs(SMALL, plan=plan(samples=6)).run()
    assert log.sides("open") == "rc"
    assert log.sides("sample") == "rccrrccrrccr"
    assert log.sides("close") == "rc"


def test_the_stack_that_begins_a_round_alternates_over_rounds_in_the_order_a_b_b_a(
    pairs: Make, log: Log
) -> None:
    pairs(SMALL, plan=plan(launches=5, samples=1)).run()
    assert log.sides("sample") == log.sides("start") == "rc cr cr rc rc".replace(" ", "")


def test_two_stacks_measure_a_large_case_one_after_the_other_and_release_its_memory(
    pairs: Make, log: Log
) -> None:
    # A device with memory of its own: nothing is predicted and none of it is taken.
    script = worker_spec(device="tpu", device_kind="Fake TPU")
    pairs(LARGE, cases=keyed(LARGE, key=TPU_KEY), reference=script, candidate=script).run()
    assert [event for event in log.events if event[1] in ("measure", "release")] == [
        ("1.fake.reference", "measure"),
        ("1.fake.reference", "release"),
        ("1.fake.candidate", "measure"),
        ("1.fake.candidate", "release"),
    ]
    assert log.sides("sample") == ""


@pytest.mark.exhaustive
def test_launches_of_two_stacks_that_cannot_share_devices_alternate_in_the_order_a_b_b_a(
    pairs: Make, log: Log
) -> None:
    schedule = pairs(SMALL, OTHER, can_overlap=False, plan=plan(launches=4))
    schedule.run()
    order = ["1.r", "1.c", "2.c", "2.r", "3.c", "3.r", "4.r", "4.c"]
    assert log.lives == [f"{event} {launch}" for launch in order for event in ("start", "end")]
    assert log.sides("sample") == ""
    assert runs(schedule, R) == runs(schedule, C) == [4, 4]


@pytest.mark.parametrize(
    ("event", "kind"),
    [("kill", FailureKind.KILLED), ("out_of_memory", FailureKind.OUT_OF_MEMORY)],
)
@pytest.mark.parametrize("lacking", sweep(Side))
def test_a_failed_worker_of_one_stack_does_not_prevent_measurements_of_the_other_stack(
    pairs: Make, lacking: Side, log: Log, event: str, kind: FailureKind
) -> None:
    script = worker_spec(cases=[{"payload_bytes": DYING.payload_bytes, "then": event}])
    schedule = pairs(SMALL, DYING, OTHER, **{lacking.value: script})
    schedule.run()
    other = R if lacking is C else C
    assert (runs(schedule, lacking), runs(schedule, other)) == ([1, 0, 1], [1, 1, 1])
    assert kinds(schedule, lacking) == [[], [kind], []]
    assert kinds(schedule, other) == [[], [], []]
    ends = [life.replace("start", "end") for life in log.lives if life.startswith("start")]
    assert sorted(ends) == sorted(life for life in log.lives if life.startswith("end"))
    # Only a worker that died is replaced.
    assert event == "kill" or len(ends) == 2


@pytest.mark.parametrize("can_overlap", sweep([True, False]))
@pytest.mark.parametrize("broken", sweep(Side))
def test_every_case_of_a_stack_fails_if_its_workers_do_not_start(
    pairs: Make, broken: Side, can_overlap: bool
) -> None:
    false = worker_spec("/bin/false")
    begin = {side: false if side is broken else None for side in Side}
    running = pairs(
        *TWO, reference=begin[R], candidate=begin[C], can_overlap=can_overlap, plan=plan(launches=2)
    )
    running.run()
    for measurement in running.measurements(broken):
        assert not measurement.runs
        assert [failure.kind for failure in measurement.failures] == [FailureKind.CRASHED] * 2
        assert "while starting" in measurement.failures[0].message
    other = running.measurements(R if broken is C else C)
    assert not any(measurement.failures for measurement in other)
    # Nobody to be in turn with: nothing is measured where both would be alive at once.
    assert [len(measurement.runs) for measurement in other] == ([0, 0] if can_overlap else [2, 2])
