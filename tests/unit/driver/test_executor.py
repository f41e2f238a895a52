"""All processes of a session: started, asked and ended, with probes and interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe
from busbw.driver.group import Group
from busbw.driver.local import LocalWorker
from busbw.driver.schedules import Schedule, Side
from busbw.driver.transport import Ending, Exit, HostLostError, WorkerStarter
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import FailureKind
from tests.helpers.workers import (
    PLAN,
    Watched,
    case,
    executor,
    interpreter,
    keyed,
    measure,
    processes,
    stack,
    starter,
    state,
    wait_until,
)

pytestmark = pytest.mark.workers

STOP = "kill -STOP $$"
SHORT_S = 0.1
LONG_S = 60.0
LAUNCH = LaunchId.parse("1.fake")


# A launch, and how many of its starts are stopped.
Stops = Callable[[str, int], None]


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Stops:
    """Shorten the start timeout of a worker that has stopped, and of no other worker."""
    begin = Group.wait_until_ready
    monkeypatch.setattr("busbw.driver.local.STACK_GRACE_S", SHORT_S)

    def shorten(launch: str, times: int) -> None:
        left = [None] * times

        def shortened(group: Group, timeout_s: float, activity: str = "starting") -> Failure | None:
            if left and _await_stop(group, launch):
                left.pop()
                timeout_s = SHORT_S
            return begin(group, timeout_s, activity)

        monkeypatch.setattr(Group, "wait_until_ready", shortened)

    return shorten


def _await_stop(group: Group, launch: str) -> bool:
    """Return whether `launch` is of `group`, after it has stopped."""
    workers = [worker for worker in group.members if isinstance(worker, LocalWorker)]
    stopping = [worker for worker in workers if worker.launch.text.startswith(launch)]
    # The others wait for the stopped one before they say anything.
    return bool(stopping) and wait_until(
        lambda: all(state(worker.pid) == "T" for worker in stopping), LONG_S
    )


def make_schedule(
    bundle: Bundle, begin: WorkerStarter, *, handover: bool = False, **options: Any
) -> tuple[Schedule, list[str]]:
    notes: list[str] = []
    driver = options.get("executor", executor(bundle, notes.append))
    stacks = {Side.CANDIDATE: stack(begin)}
    return Schedule(driver, keyed(case(1024)), PLAN, stacks, can_overlap=handover), notes


@pytest.mark.parametrize("handover", [True, False])
def test_a_worker_that_is_stopped_at_its_start_is_killed_and_another_worker_is_started(
    bundle: Bundle, tmp_path: Path, stops: Stops, handover: bool
) -> None:
    stops("1.fake", 1)
    python = interpreter(tmp_path, "1.fake", times=1, act=STOP)
    running, notes = make_schedule(bundle, starter(python), handover=handover)
    running.run()
    (measured,) = running.measurements()
    assert [run.launch.text for run in measured.runs] == ["1.fake.again"]
    (note,) = notes
    assert note.startswith("launch 1.fake: the worker did not answer within 0.")
    assert note.endswith(" s, as a signal has stopped it, while starting; it was started once more")
    assert not processes(bundle.path)


def opened_group(starting: Executor, then: str = "") -> Group:
    """Return a ready group of one worker; `then` happens to the worker in the middle of a case."""
    group = starting.open_group(starter(cases=[{"then": then}]), LAUNCH)
    assert isinstance(group, Group)
    return group


def test_a_second_interrupt_during_the_end_of_groups_of_workers_leaves_no_worker(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[LocalWorker] = []
    starting = Executor(Watched(bundle, lambda worker, event: workers.append(worker)))
    opened_group(starting)
    opened_group(starting)

    def interrupted(worker: LocalWorker) -> Exit:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalWorker, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            starting.kill()
    assert wait_until(lambda: not processes(bundle.path), 5)
    for worker in workers:
        worker.end_and_wait(Ending.KILL)


def test_an_executor_that_another_thread_stops_starts_no_more_groups_of_workers(
    bundle: Bundle,
) -> None:
    notes: list[str] = []
    starting = executor(bundle, notes.append)
    with starting:
        group = opened_group(starting, "hang")
        timer = threading.Timer(0.4, starting.stop)
        timer.start()
        failure = group.ask(measure(), LONG_S, "measuring")
        timer.join()
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.KILLED
        assert starting.is_stopped
        late = starting.open_group(starter(), LaunchId.parse("2.fake"))
    assert isinstance(late, Failure)
    assert late.kind is FailureKind.KILLED
    assert late.launch.text == "2.fake"
    assert not notes
    assert not processes(bundle.path)


@pytest.mark.exhaustive
def test_a_probe_that_hangs_is_ended_after_the_timeout_for_starting_a_worker(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("busbw.driver.executor"), "START_TIMEOUT_S", 1.0)
    with pytest.raises(
        HostLostError, match=r"did not answer within 1[.\d]* s while looking for devices"
    ):
        probe(starter(probe="hang"), executor(bundle))
    assert not processes(bundle.path)
