"""Training in groups with parameter servers: made up, then really with TensorFlow."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from busbw.driver import Bundle, LocalStart, Place, Starter, Worker, train
from busbw.driver.parameter_server import checked, merged
from busbw.frameworks import FRAMEWORKS
from busbw.model import (
    Capability,
    Failure,
    FailureKind,
    LaunchId,
    ParameterServerRun,
    ParameterServerTraining,
    Updates,
)
from tests.worker.backends.real import needs

from .processes import processes, wait_until

LONG_S = 120.0
SMALL = ParameterServerTraining(
    updates=Updates.SYNCHRONOUS, workers=2, servers=1, epochs=2, examples=1000, unseen=500
)


def starts(bundle: Bundle, framework: str) -> tuple[Callable[[Place], Worker], dict[str, Worker]]:
    """How members are started, and those that have been, by role."""
    starter = Starter(
        python=sys.executable,
        framework=framework,
        capability=Capability.PARAMETER_SERVER,
        defaults=FRAMEWORKS[framework].environment,
        device="cpu",
    )
    started: dict[str, Worker] = {}

    def start(place: Place) -> Worker:
        worker = LocalStart(starter=starter, bundle=bundle, launch=LaunchId.parse("1"))(place)
        started[place.role.name] = worker
        return worker

    return start, started


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        (Updates.SINGLE, {"chief 0"}),
        (Updates.ASYNCHRONOUS, {"chief 0", "worker 0", "worker 1", "ps 0"}),
        (Updates.SYNCHRONOUS, {"worker 0", "worker 1", "ps 0"}),
    ],
)
def test_each_way_has_its_roles_and_one_run(
    bundle: Bundle, updates: Updates, expected: set[str]
) -> None:
    workers = 1 if updates is Updates.SINGLE else 2
    training = replace(SMALL, updates=updates, workers=workers)
    start, started = starts(bundle, "fake")
    run = train(training, start, LONG_S)
    assert isinstance(run, ParameterServerRun)
    assert set(started) == expected
    assert run.gradients == 20 * workers
    assert not processes(bundle.path)


def made(**fields: object) -> ParameterServerRun:
    """One worker's answer."""
    found = ParameterServerRun(
        api="made up",
        epochs_s=(2.0, 1.0),
        accuracy=0.75,
        gradients=20,
        global_step=20,
        updates=20,
        server_bytes={},
        processor="",
        cores=2,
        versions={},
    )
    return replace(found, **fields)  # type: ignore[arg-type]


def test_an_epoch_takes_as_long_as_for_the_slowest_and_gradients_add_up() -> None:
    run = merged([made(), made(epochs_s=(1.0, 3.0), gradients=21, accuracy=0.5)])
    assert (run.epochs_s, run.gradients, run.accuracy) == ((2.0, 3.0), 41, 0.75)


@pytest.mark.parametrize("wrong", ["gradients", "global_step", "updates"])
def test_one_too_many_of_anything_is_a_wrong_result(wrong: str) -> None:
    right = made(gradients=40)
    assert checked(SMALL, right) == right
    failure = checked(SMALL, replace(right, **{wrong: getattr(right, wrong) + 1}))
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.WRONG_RESULT


# Who offers itself and is not asked again is watched, and dies of the script only as it trains.
@pytest.mark.parametrize(
    ("updates", "victim"),
    [
        (Updates.ASYNCHRONOUS, "chief 0"),
        (Updates.SYNCHRONOUS, "worker 0"),
        (Updates.SYNCHRONOUS, "worker 1"),
    ],
)
def test_who_is_killed_as_it_trains_is_named_and_the_others_are_ended(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, updates: Updates, victim: str
) -> None:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"roles": {victim: "kill"}}))
    start, _ = starts(bundle, "fake")
    failure = train(replace(SMALL, updates=updates), start, LONG_S)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.KILLED
    assert failure.message == f"{victim}: the worker was killed (SIGKILL) while training"
    assert not processes(bundle.path)


TENSORFLOW = "tensorflow"
REAL = "tensorflow"


@needs(TENSORFLOW)
@pytest.mark.parametrize("updates", [Updates.ASYNCHRONOUS, Updates.SYNCHRONOUS])
def test_tensorflow_updates_as_often_as_it_should_with_two_workers(
    bundle: Bundle, updates: Updates
) -> None:
    start, _ = starts(bundle, REAL)
    run = train(replace(SMALL, updates=updates, servers=2), start, LONG_S)
    assert isinstance(run, ParameterServerRun), (run.message, run.log)
    assert (run.gradients, len(run.epochs_s)) == (40, 2)
    assert run.updates == run.global_step == (20 if updates is Updates.SYNCHRONOUS else 40)
    assert set(run.server_bytes) == {"ps 0", "ps 1"}
    assert not processes(bundle.path)


# Those who train would wait for a worker. They are told of a server that is gone: by TF 1's session
# here, by TF 2's coordinator in tests/worker/backends/test_tensorflow_strategies.py.
@needs(TENSORFLOW)
@pytest.mark.parametrize(
    ("updates", "trainer", "victim"),
    [(Updates.ASYNCHRONOUS, "chief 0", "worker 1"), (Updates.SYNCHRONOUS, "worker 0", "ps 0")],
)
def test_a_member_that_is_killed_in_mid_epoch_is_a_failure_of_the_training(
    bundle: Bundle, updates: Updates, trainer: str, victim: str
) -> None:
    endless = replace(SMALL, updates=updates, epochs=100_000)
    start, started = starts(bundle, REAL)

    def kill() -> None:
        log = bundle.log_path(f"1.{trainer.replace(' ', '')}.{REAL}")
        if wait_until(lambda: log.exists() and "epoch 2:" in log.read_text(), LONG_S):
            os.kill(started[victim].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    failure = train(endless, start, 2 * LONG_S)
    killer.join()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.KILLED
    assert failure.message == f"{victim}: the worker was killed (SIGKILL) while training"
    assert not processes(bundle.path)
