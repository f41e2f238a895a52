"""All processes of a session: started, asked and ended, with probes and interrupts."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, probe
from busbw.driver.group import Group
from busbw.driver.local import LocalWorker
from busbw.driver.transport import EndMethod, HostLostError, WorkerExit
from busbw.model.launch import LaunchId
from busbw.model.words import FailureKind
from tests.helpers.workers import (
    Watched,
    executor,
    failure,
    measure,
    processes,
    wait_until,
    worker_spec,
)

pytestmark = pytest.mark.workers

LONG_S = 60.0
LAUNCH = LaunchId.parse("1.fake")


def opened_group(starting: Executor, then: str = "") -> Group:
    """Return a ready group of one worker; `then` happens to the worker in the middle of a case."""
    group = starting.open_group(worker_spec(cases=[{"then": then}]), LAUNCH)
    assert isinstance(group, Group)
    return group


def test_a_second_interrupt_during_the_end_of_groups_of_workers_leaves_no_worker(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[LocalWorker] = []
    starting = Executor(Watched(bundle, lambda worker, event: workers.append(worker)))
    opened_group(starting)
    opened_group(starting)

    def interrupted(worker: LocalWorker) -> WorkerExit:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalWorker, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            starting.kill()
    assert wait_until(lambda: not processes(bundle.path), 5)
    for worker in workers:
        worker.end_and_wait(EndMethod.KILL)


def test_an_executor_that_another_thread_stops_starts_no_more_groups_of_workers(
    bundle: Bundle,
) -> None:
    notes: list[str] = []
    starting = executor(bundle, notes.append)
    with starting:
        group = opened_group(starting, "hang")
        timer = threading.Timer(0.4, starting.stop)
        timer.start()
        assert failure(group.ask(measure(), LONG_S, "measuring")).kind is FailureKind.KILLED
        timer.join()
        assert starting.is_stopped
        late: Any = starting.open_group(worker_spec(), LaunchId.parse("2.fake"))
    assert late.kind is FailureKind.KILLED
    assert str(late.launch) == "2.fake"
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
        probe(worker_spec(probe="hang"), executor(bundle))
    assert not processes(bundle.path)
