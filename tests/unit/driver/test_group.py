"""One launch of several processes: a single timeout, and one merged answer."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.group import Group, merge_replies
from busbw.driver.local import LocalTransport, LocalWorker
from busbw.driver.transport import EndMethod, Request, Worker, WorkerExit, WorkerSpec
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import GroupMember, Probe, ProcessGroupSize
from busbw.model.words import FailureKind
from tests.helpers import build
from tests.helpers.workers import KEY, failure, measure, processes, state, wait_until, worker_spec

pytestmark = pytest.mark.workers

LONG_S = 60.0
SHORT_S = 0.4
CLUSTER = ProcessGroupSize(processes=4)
LAUNCH = LaunchId.parse("1")
REQUEST = measure(key=replace(KEY, processes=4))


class ByIndex(LocalTransport):
    """Starts the workers in `worker_specs` with scripts by their index, others without a script."""

    def __init__(self, bundle: Bundle, worker_specs: dict[int, WorkerSpec]) -> None:
        super().__init__(bundle)
        self._worker_specs = worker_specs

    def start(
        self, worker_spec: WorkerSpec, launch: LaunchId, member: GroupMember | None
    ) -> Worker:
        index = member.index if member else 0
        return super().start(self._worker_specs.get(index, worker_spec), launch, member)


@contextmanager
def started(bundle: Bundle, cluster: ProcessGroupSize = CLUSTER, **events: str) -> Iterator[Group]:
    """Start a group that is ready, kill it at the end; `events` happen in mid-case: worker2="kill".

    No process is left.
    """
    worker_specs = {
        int(name.removeprefix("worker")): worker_spec(cases=[{"then": event}])
        for name, event in events.items()
    }
    group = Group(ByIndex(bundle, worker_specs), replace(worker_spec(), cluster=cluster), LAUNCH)
    try:
        assert group.wait_until_ready(LONG_S) is None
        yield group
    finally:
        group.kill()
    assert not processes(bundle.path)


def pid_of(group: Group, index: int) -> int:
    worker = group.members[index]
    assert isinstance(worker, LocalWorker)
    return worker.pid


@contextmanager
def killed_soon(pid: int, number: signal.Signals) -> Iterator[None]:
    timer = threading.Timer(SHORT_S, os.kill, (pid, number))
    timer.start()
    yield
    timer.join()


def test_the_failure_of_a_group_names_a_killed_worker_rather_than_another_failed_worker(
    bundle: Bundle,
) -> None:
    with started(bundle, worker0="out_of_memory", worker1="hang", worker2="kill") as group:
        ended = failure(group.ask(REQUEST, LONG_S, "measuring"))
    assert ended.message.startswith("worker 2: the worker was killed")


def test_a_worker_that_cannot_start_leaves_no_other_worker_of_its_group(bundle: Bundle) -> None:
    transport = ByIndex(bundle, {2: worker_spec("/bin/false")})
    ended = failure(
        Group(transport, replace(worker_spec(), cluster=CLUSTER), LAUNCH).wait_until_ready(LONG_S)
    )
    assert ended.message == "worker 2: the worker ended with exit code 1 while starting"
    assert not processes(bundle.path)


def test_an_exception_at_the_start_of_a_group_leaves_no_worker_and_no_file_descriptor(
    bundle: Bundle,
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    impossible = replace(
        worker_spec(), environment={"A=B": "no name of a variable has an equals sign"}
    )
    transport = ByIndex(bundle, {2: impossible})
    with pytest.raises(ValueError, match="illegal environment variable name"):
        Group(transport, replace(worker_spec(), cluster=CLUSTER), LAUNCH)
    assert not processes(bundle.path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_interrupt_during_the_end_of_a_group_leaves_no_worker(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(worker: LocalWorker, ending: EndMethod) -> WorkerExit:
        raise KeyboardInterrupt

    with started(bundle) as group:
        monkeypatch.setattr(LocalWorker, "end_and_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            group.close_gracefully()
        assert group.has_ended


def test_the_failure_of_a_group_names_a_stopped_worker_and_not_a_worker_that_ended_later(
    bundle: Bundle,
) -> None:
    with started(bundle) as group, killed_soon(pid_of(group, 2), signal.SIGTERM):
        os.kill(pid_of(group, 3), signal.SIGSTOP)
        # On a busy machine it is still running for a while.
        assert wait_until(lambda: state(pid_of(group, 3)) == "T")
        ended = failure(group.ask(REQUEST, LONG_S, "measuring"))
    assert ended.message.startswith("worker 3: the worker did not answer within")
    assert "as a signal has stopped it" in ended.message


PAIR = ProcessGroupSize(processes=2)
PAIR_REQUEST = measure(key=replace(KEY, processes=2))


def test_a_group_ends_if_the_replies_of_its_processes_contradict_each_other(bundle: Bundle) -> None:
    transport = ByIndex(bundle, {1: worker_spec(device_kind="another chip")})
    group = Group(transport, replace(worker_spec(), cluster=PAIR), LAUNCH)
    assert group.wait_until_ready(LONG_S) is None
    failure(group.ask(Request("probe", Probe), LONG_S, "looking for devices"))
    assert group.has_ended


JAX_LAUNCH = LaunchId.parse("1.jax")


def merged(*answers: object) -> Any:
    return merge_replies(answers, JAX_LAUNCH)


def test_equal_runs_of_the_workers_of_a_group_are_merged_to_a_single_run() -> None:
    first = build.run(1e-3, launch="1.jax.worker0")
    first = replace(first, values_checked=8, peak_memory_bytes=100, compile_s=1.0)
    other = replace(first, launch=LaunchId.parse("1.jax.worker2"), peak_memory_bytes=300)
    run = merged(first, replace(other, compile_s=2.0))
    assert run.compiled_memory_bytes is None
    assert (run.launch, run.values_checked) == (JAX_LAUNCH, 16)
    assert (run.peak_memory_bytes, run.compile_s) == (300, 2.0)
    assert run.samples_s == first.samples_s


@pytest.mark.parametrize("name", ["samples_s", "iterations", "clock"])
def test_workers_of_a_group_whose_samples_or_iterations_or_clocks_differ_are_a_failure(
    name: str,
) -> None:
    other = {"samples_s": (5.0,), "iterations": 77, "clock": "device"}
    run = build.run(1e-3)
    ended = failure(merged(run, replace(run, **{name: other[name]})))  # type: ignore[arg-type]
    assert ended.kind is FailureKind.CRASHED
    assert ended.message == f"the processes disagree on {name}"
    assert ended.launch == JAX_LAUNCH


PROBE = build.probe(build.device_set())


@pytest.mark.parametrize(
    "answers", [(True, False), (PROBE, replace(PROBE, devices=(build.device_set(cores=64),)))]
)
def test_different_answers_of_the_workers_of_a_group_are_a_failure(
    answers: tuple[object, ...],
) -> None:
    assert isinstance(merged(*answers), Failure)


def test_a_group_can_measure_with_file_descriptors_above_1023(bundle: Bundle) -> None:
    """Open as many descriptors as a group of several hundred hosts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        descriptor = 0
        while descriptor < 1024:
            descriptor = os.dup(0)
            stack.callback(os.close, descriptor)
        with started(bundle, PAIR) as group:
            assert isinstance(group.ask(PAIR_REQUEST, LONG_S, "measuring"), Run)
