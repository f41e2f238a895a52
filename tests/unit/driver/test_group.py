"""One launch of several processes: one deadline, and one answer made of all answers."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.group import Group, merged
from busbw.driver.local import LocalTransport, Worker
from busbw.driver.transport import Reply, Request, Starter
from busbw.model.cluster import Cluster, ClusterMember
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import Probe
from busbw.model.words import FailureKind
from tests.helpers import build
from tests.helpers.workers import KEY, failure, measure, processes, starter, state, wait_until

pytestmark = pytest.mark.workers

LONG_S = 60.0
SHORT_S = 0.4
CLUSTER = Cluster(processes=4)
INDICES = range(4)
LAUNCH = LaunchId.parse("1")
REQUEST = measure()
OF_FOUR = measure(key=replace(KEY, processes=4))


class ByIndex(LocalTransport):
    """Starts each member as `starters` say for its index, the others without a script."""

    def __init__(self, bundle: Bundle, starters: dict[int, Starter]) -> None:
        super().__init__(bundle)
        self._starters = starters

    def start(self, starter: Starter, launch: LaunchId, member: ClusterMember | None) -> Worker:
        """On this host, whatever the group would start there."""
        index = member.index if member else 0
        return super().start(self._starters.get(index, starter), launch, member)


def started(bundle: Bundle, cluster: Cluster = CLUSTER, **then: str) -> Group:
    """A group of fake workers; `then` has what happens to one in mid-case: worker2="kill"."""
    starters = {
        index: starter(cases=[{"then": then[f"worker{index}"]}])
        for index in INDICES
        if f"worker{index}" in then
    }
    return Group(ByIndex(bundle, starters), starter(), LAUNCH, cluster)


@contextmanager
def group(bundle: Bundle, cluster: Cluster = CLUSTER, **then: str) -> Iterator[Group]:
    """One whose members have all said that they are ready; ended at the end."""
    found = started(bundle, cluster, **then)
    try:
        assert found.begin(LONG_S) is None
        yield found
    finally:
        found.kill()


def all_of(request: Request[Run]) -> dict[int, Request[Run] | None]:
    return dict[int, Request[Run] | None].fromkeys(INDICES, request)


def test_kill_9_from_outside_is_seen_though_that_one_was_not_asked(bundle: Bundle) -> None:
    with group(bundle, worker0="hang") as members:
        other = members.members[3]
        assert isinstance(other, Worker)
        timer = threading.Timer(SHORT_S, os.kill, (other.pid, signal.SIGKILL))
        timer.start()
        found = failure(members.ask_each({0: REQUEST}, LONG_S, "measuring"))
        timer.join()
    assert found.message == "worker 3: the worker was killed (SIGKILL) while measuring"
    assert not processes(bundle.path)


def test_who_died_is_named_and_not_who_complains_of_it_first(bundle: Bundle) -> None:
    with group(bundle, worker0="out_of_memory", worker1="hang", worker2="kill") as members:
        found = failure(members.ask_each(all_of(OF_FOUR), LONG_S, "measuring"))
    assert found.message.startswith("worker 2: the worker was killed")


def test_one_that_cannot_start_leaves_none_of_the_others(bundle: Bundle) -> None:
    transport = ByIndex(bundle, {2: starter("/bin/false")})
    found = failure(Group(transport, starter(), LAUNCH, CLUSTER).begin(LONG_S))
    assert found.message == "worker 2: the worker ended with exit code 1 while starting"
    assert not processes(bundle.path)


def test_a_start_that_raises_leaves_none_of_those_that_were_started(bundle: Bundle) -> None:
    before = len(os.listdir("/proc/self/fd"))
    impossible = replace(starter(), environment={"A=B": "no name of a variable has an equals sign"})
    transport = ByIndex(bundle, {2: impossible})
    with pytest.raises(ValueError, match="illegal environment variable name"):
        Group(transport, starter(), LAUNCH, CLUSTER)
    assert not processes(bundle.path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_cluster_of_a_single_worker_is_not_one_by_itself(bundle: Bundle) -> None:
    cluster = Cluster(processes=1)
    with group(bundle, cluster, worker0="out_of_memory") as members:
        found = failure(members.ask_each({0: REQUEST}, LONG_S, "measuring"))
        assert members.is_over
    assert found.message.startswith("worker 0: RESOURCE_EXHAUSTED")
    assert found.launch.text == "1.worker0"


def test_an_interrupt_while_members_end_leaves_none(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(worker: Worker) -> bool:
        raise KeyboardInterrupt

    members = started(bundle)
    assert members.begin(LONG_S) is None
    monkeypatch.setattr(Worker, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        members.close()
    assert members.is_over
    assert not processes(bundle.path)


@pytest.mark.exhaustive
def test_a_member_that_talks_without_end_does_not_hold_up_the_deadline(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with group(bundle) as members:
        other = members.members[3]
        reading, writing = os.pipe()
        os.write(writing, b".")
        monkeypatch.setattr(other, "fileno", lambda: reading)
        monkeypatch.setattr(other, "received", lambda: Reply(True))
        # The others never come to the exchange that worker 0 waits for.
        found = failure(members.ask_each({0: OF_FOUR}, SHORT_S, "measuring"))
        os.close(reading)
        os.close(writing)
    assert found.kind is FailureKind.TIMEOUT


def stop(pid: int) -> None:
    """Stop a process, which on a busy machine is still running for a while."""
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: state(pid) == "T")


@pytest.mark.exhaustive
def test_of_several_that_are_silent_the_one_that_is_stopped_is_named(bundle: Bundle) -> None:
    with group(bundle, worker0="hang", worker1="hang", worker2="hang", worker3="hang") as members:
        stopped = members.members[2]
        assert isinstance(stopped, Worker)
        stop(stopped.pid)
        found = failure(members.ask_each(all_of(OF_FOUR), 1.0, "measuring"))
    assert found.kind is FailureKind.TIMEOUT
    # As long as it was really waited, which is longer on a busy machine.
    assert re.fullmatch(
        r"worker 2: the worker did not answer within [1-9][\d.]* s, as a signal has stopped it, "
        "while measuring",
        found.message,
    ), found.message
    assert not processes(bundle.path)


def test_one_that_is_stopped_is_named_and_not_who_was_told_so_and_ended(bundle: Bundle) -> None:
    with group(bundle) as members:
        ended, stopped = members.members[2], members.members[3]
        assert isinstance(ended, Worker) and isinstance(stopped, Worker)
        stop(stopped.pid)
        timer = threading.Timer(SHORT_S, os.kill, (ended.pid, signal.SIGTERM))
        timer.start()
        found = failure(members.ask_each(all_of(OF_FOUR), LONG_S, "measuring"))
        timer.join()
    assert found.message.startswith("worker 3: the worker did not answer within")
    assert "as a signal has stopped it" in found.message
    assert not processes(bundle.path)


@contextmanager
def pair_of(bundle: Bundle, begin: Starter) -> Iterator[Group]:
    """Two processes that measure together, ready; none is left."""
    found = Group(LocalTransport(bundle), begin, LAUNCH, Cluster(processes=2))
    try:
        assert found.begin(LONG_S) is None
        yield found
    finally:
        found.kill()
    assert not processes(bundle.path)


def _pair_request() -> Request[Run]:
    return measure(key=replace(KEY, processes=2))


def test_what_one_of_them_refuses_ends_all(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.driver.group.REFUSAL_GRACE_S", 0.5)
    one = starter(processes={"1": {"cases": [{"then": "wrong_result"}]}})
    with pair_of(bundle, one) as pair:
        found = failure(pair.ask(_pair_request(), LONG_S, "measuring"))
        assert pair.is_over
    assert found.kind is FailureKind.WRONG_RESULT
    assert found.message.startswith("worker 1: ")


JAX_LAUNCH = LaunchId.parse("1.jax")


def _merged(*answers: object) -> object:
    return merged(dict(enumerate(answers)), JAX_LAUNCH)


def test_runs_that_agree_are_one_with_the_values_of_all_and_the_largest_memory() -> None:
    one = build.run(1e-3, launch="1.jax.worker0")
    one = replace(one, values_checked=8, peak_memory_bytes=100, compile_s=1.0)
    other = replace(one, launch=LaunchId.parse("1.jax.worker2"), peak_memory_bytes=300)
    found = _merged(one, replace(other, compile_s=2.0))
    assert isinstance(found, Run)
    assert (found.launch, found.values_checked) == (JAX_LAUNCH, 16)
    assert (found.peak_memory_bytes, found.compile_s) == (300, 2.0)
    assert found.samples_s == one.samples_s


def test_memory_that_no_process_knows_stays_unknown() -> None:
    one = replace(build.run(1e-3), peak_memory_bytes=None)
    found = _merged(one, one)
    assert isinstance(found, Run)
    assert found.peak_memory_bytes is None


@pytest.mark.parametrize("name", ["samples_s", "iterations", "clock"])
def test_runs_that_differ_in_what_all_measured_are_a_failure(name: str) -> None:
    other = {"samples_s": (5.0,), "iterations": 77, "clock": "device"}
    one = build.run(1e-3)
    found = _merged(one, replace(one, **{name: other[name]}))  # type: ignore[arg-type]
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.CRASHED
    assert found.message == f"the processes disagree on {name}"
    assert found.launch == JAX_LAUNCH


def test_a_failure_of_all_is_the_group_s() -> None:
    found = _merged(build.out_of_memory(), build.out_of_memory())
    assert isinstance(found, Failure)
    assert (found.kind, found.launch) == (FailureKind.OUT_OF_MEMORY, JAX_LAUNCH)


def test_probes_are_one_with_the_most_that_a_process_takes() -> None:
    one = replace(build.probe(build.device_set()), least_memory_bytes=5)
    found = _merged(one, replace(one, least_memory_bytes=9))
    assert isinstance(found, Probe)
    assert found.least_memory_bytes == 9


def test_probes_of_other_versions_are_no_single_stack() -> None:
    one = replace(build.probe(build.device_set()), versions={"jax": "0.10.2"}, hosts=("a",))
    differs = _merged(one, replace(one, versions={"jax": "0.10.1"}, hosts=("b",)))
    assert isinstance(differs, Failure)
    assert differs.kind is FailureKind.WRONG_WORLD
    assert differs.message == "process 1 (b) has jax 0.10.1, process 0 (a) jax 0.10.2"


def test_probes_of_other_devices_are_no_single_stack() -> None:
    one = build.probe(build.device_set())
    differs = _merged(one, build.probe(build.device_set(cores=64)))
    assert isinstance(differs, Failure)
    assert differs.kind is FailureKind.WRONG_WORLD
    assert "of 64 cores" in differs.message


def test_confirmations_must_be_the_same() -> None:
    assert _merged(True, True) is True
    assert _merged(None, None) is None
    assert isinstance(_merged(True, False), Failure)


def test_a_group_may_have_descriptors_from_1024_on(bundle: Bundle) -> None:
    """As that of several hundred hosts does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with contextlib.ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        descriptor = 0
        while descriptor < 1024:
            descriptor = os.dup(0)
            held.callback(os.close, descriptor)
        with group(bundle, Cluster(processes=2)) as pair:
            assert isinstance(pair.ask(_pair_request(), LONG_S, "measuring"), Run)
