"""Interrupts at any moment: no worker remains, and measured runs are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalWorker
from busbw.driver.schedules import RoundRunner, Side, StackWorkers
from tests.helpers.sweep import sweep
from tests.helpers.workers import PLAN, Watched, case, keyed, processes, stack

pytestmark = pytest.mark.workers

ONE: Mapping[Side, StackWorkers] = {Side.CANDIDATE: stack()}
BOTH: Mapping[Side, StackWorkers] = {Side.REFERENCE: stack(), Side.CANDIDATE: stack()}


def interrupt_at(event: str, launch: str = "") -> Callable[[LocalWorker, str], None]:
    """Interrupt the driver as it does `event` to a worker of that launch, or to any."""

    def interrupted(worker: LocalWorker, done: str) -> None:
        if done == event and str(worker.launch).startswith(launch):
            raise KeyboardInterrupt

    return interrupted


@pytest.mark.parametrize(
    ("name", "can_overlap", "event", "launch", "runs"),
    sweep(
        [
            ("single", False, "listen", "1", [0]),
            ("single", False, "measure", "1", [0]),
            ("single", False, "end", "1", [1]),
            ("single", False, "measure", "2", [1]),
            # The first launch's worker has yet to end.
            ("single", True, "listen", "2", [1]),
            ("single", True, "end", "1", [1]),
            ("pairs", False, "listen", "1.fake.candidate", [1, 0]),
            ("pairs", False, "measure", "1.fake.candidate", [1, 0]),
            ("pairs", True, "listen", "1.fake.candidate", [0, 0]),
            ("pairs", True, "open", "1.fake.candidate", [0, 0]),
            ("pairs", True, "sample", "1.fake.candidate", [0, 0]),
            ("pairs", True, "close", "1.fake.candidate", [1, 0]),
            ("pairs", True, "end", "1.fake.reference", [1, 1]),
        ],
        in_gate=3,
    ),
)
def test_an_interrupt_of_a_schedule_leaves_no_worker_and_keeps_the_measured_runs(
    bundle: Bundle, name: str, can_overlap: bool, event: str, launch: str, runs: list[int]
) -> None:
    running = RoundRunner(
        Executor(Watched(bundle, interrupt_at(event, launch))),
        keyed(case(1024)),
        replace(PLAN, launches=2),
        ONE if name == "single" else BOTH,
        can_overlap=can_overlap,
    )
    with pytest.raises(KeyboardInterrupt):
        running.run()
    assert not processes(bundle.path)
    measurements = [m for side in running.stacks for m in running.measurements(side)]
    assert [len(measurement.runs) for measurement in measurements] == runs
    assert not any(measurement.failures for measurement in measurements)
