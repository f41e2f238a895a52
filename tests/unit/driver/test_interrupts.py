"""Whatever is interrupted, and whenever: no worker is left, and what was measured is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import Worker
from busbw.driver.parallel import Job, Parallel
from busbw.driver.schedules import Schedule, Side, Stack
from busbw.hardware.topologies import topology_of
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.words import Capability
from tests.helpers.sweep import sweep
from tests.helpers.workers import PLAN, Watched, case, keyed, processes, stack, starter

pytestmark = pytest.mark.workers

ONE: Mapping[Side, Stack] = {Side.CANDIDATE: stack()}
BOTH: Mapping[Side, Stack] = {Side.REFERENCE: stack(), Side.CANDIDATE: stack()}
LAUNCHES = 2


def at(event: str, launch: str = "") -> Callable[[Worker, str], None]:
    """Interrupts the driver as it does `event` to a worker of that launch, or to any."""

    def interrupted(worker: Worker, done: str) -> None:
        if done == event and worker.launch.text.startswith(launch):
            raise KeyboardInterrupt

    return interrupted


def schedule(
    bundle: Bundle, name: str, event: str, launch: str, *, shared: bool, asked: Case
) -> Schedule:
    stacks = ONE if name == "passes" else BOTH
    plan = replace(PLAN, launches=LAUNCHES)
    executor = Executor(Watched(bundle, at(event, launch)))
    return Schedule(executor, keyed(asked), plan, stacks, shared=shared)


@pytest.mark.parametrize(
    ("name", "shared", "event", "launch", "runs"),
    sweep(
        [
            ("passes", False, "listen", "1", [0]),
            ("passes", False, "measure", "1", [0]),
            ("passes", False, "end", "1", [1]),
            ("passes", False, "measure", "2", [1]),
            # The first launch's worker has yet to end.
            ("passes", True, "listen", "2", [1]),
            ("passes", True, "end", "1", [1]),
            ("pairs", False, "listen", "1.fake.candidate", [1, 0]),
            ("pairs", False, "measure", "1.fake.candidate", [1, 0]),
            ("pairs", True, "listen", "1.fake.candidate", [0, 0]),
            ("pairs", True, "open", "1.fake.candidate", [0, 0]),
            ("pairs", True, "turn", "1.fake.candidate", [0, 0]),
            ("pairs", True, "close", "1.fake.candidate", [1, 0]),
            ("pairs", True, "end", "1.fake.reference", [1, 1]),
        ],
        in_gate=3,
    ),
)
def test_an_interrupt_of_a_schedule_leaves_no_worker_and_keeps_what_was_measured(
    bundle: Bundle, name: str, shared: bool, event: str, launch: str, runs: list[int]
) -> None:
    running = schedule(bundle, name, event, launch, shared=shared, asked=case(1024))
    with pytest.raises(KeyboardInterrupt):
        running.run()
    assert not processes(bundle.path)
    found = [one for side in running.stacks for one in running.measurements(side)]
    assert [len(one.runs) for one in found] == runs
    assert not any(one.failures for one in found)


def compiling(bundle: Bundle, event: str) -> Parallel:
    begin = replace(starter(), capability=Capability.COMPILE)
    executor = Executor(Watched(bundle, at(event)))
    return Parallel(executor, {"": begin}, workers=2, timeout_s=60.0)


@pytest.mark.parametrize("event", sweep(["listen", "compile"]))
def test_an_interrupt_of_workers_that_compile_leaves_none(bundle: Bundle, event: str) -> None:
    topology = topology_of("v5e:2x4")
    cases = [
        replace(case(1024 * count), ranks=8, protocol=Protocol.parse("device/fake"))
        for count in (1, 2, 3)
    ]
    with pytest.raises(KeyboardInterrupt):
        compiling(bundle, event).run([Job(case=one, topology=topology) for one in cases])
    assert not processes(bundle.path)


@pytest.mark.parametrize("event", sweep(["listen", "describe"]))
def test_an_interrupt_while_a_compiler_is_described_leaves_no_worker(
    bundle: Bundle, event: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        compiling(bundle, event).describe("", [topology_of("v5e:2x4")])
    assert not processes(bundle.path)
