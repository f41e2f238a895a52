"""All processes of a session: started, asked, ended; the probe, and interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor, ProbeCutShort, ProbeFailed, probe
from busbw.driver.group import Group
from busbw.driver.local import Worker
from busbw.driver.schedules import Schedule, Side
from busbw.driver.transport import Starter
from busbw.model.launch import Failure, LaunchId
from busbw.model.words import Device, FailureKind
from tests.helpers.sweep import sweep
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
    """A start is given up as soon as its worker has stopped; all others have their whole time."""
    begin = Group.begin
    monkeypatch.setattr("busbw.driver.process.STACK_GRACE_S", SHORT_S)

    def shorten(launch: str, times: int) -> None:
        left = [None] * times

        def shortened(group: Group, timeout_s: float, doing: str = "starting") -> Failure | None:
            if left and _await_stop(group, launch):
                left.pop()
                timeout_s = SHORT_S
            return begin(group, timeout_s, doing)

        monkeypatch.setattr(Group, "begin", shortened)

    return shorten


def _await_stop(group: Group, launch: str) -> bool:
    """Return whether `launch` is of `group`, after it has stopped."""
    workers = [worker for worker in group.members.values() if isinstance(worker, Worker)]
    stopping = [worker for worker in workers if worker.launch.text.startswith(launch)]
    # The others wait for the stopped one before they say anything.
    return bool(stopping) and wait_until(
        lambda: all(state(worker.pid) == "T" for worker in stopping), LONG_S
    )


def passes(
    bundle: Bundle, begin: Starter, *, handover: bool = False, **of: Any
) -> tuple[Schedule, list[str]]:
    notes: list[str] = []
    asked = of.get("executor", executor(bundle, notes.append))
    stacks = {Side.CANDIDATE: stack(begin)}
    return Schedule(asked, keyed(case(1024)), PLAN, stacks, shared=handover), notes


@pytest.mark.parametrize("handover", [True, False])
def test_a_worker_that_is_stopped_as_it_begins_is_killed_and_another_started(
    bundle: Bundle, tmp_path: Path, stops: Stops, handover: bool
) -> None:
    stops("1.fake", 1)
    python = interpreter(tmp_path, "1.fake", times=1, act=STOP)
    running, notes = passes(bundle, starter(python), handover=handover)
    running.run()
    (measured,) = running.measurements()
    assert [run.launch.text for run in measured.runs] == ["1.fake.again"]
    (note,) = notes
    assert note.startswith("launch 1.fake: the worker did not answer within 0.")
    assert note.endswith(" s, as a signal has stopped it, while starting; it was started once more")
    assert not processes(bundle.path)


def test_one_that_is_stopped_twice_fails_its_cases(
    bundle: Bundle, tmp_path: Path, stops: Stops
) -> None:
    stops("1.fake", 2)
    running, _ = passes(bundle, starter(interpreter(tmp_path, "1.fake", times=2, act=STOP)))
    running.run()
    (measured,) = running.measurements()
    assert [failure.kind for failure in measured.failures] == [FailureKind.TIMEOUT]
    assert not processes(bundle.path)


@pytest.mark.parametrize("times", [0, 1])
def test_an_interrupt_of_a_start_leaves_no_worker(
    bundle: Bundle, tmp_path: Path, times: int
) -> None:
    asked: list[str] = []

    def interrupted(worker: Worker, event: str) -> None:
        if event == "listen":
            asked.append(worker.launch.text)
            if len(asked) > times:
                raise KeyboardInterrupt

    begin = starter(interpreter(tmp_path, "1.fake", times=1))
    running, _ = passes(bundle, begin, executor=Executor(Watched(bundle, interrupted)))
    with pytest.raises(KeyboardInterrupt):
        running.run()
    # The shell's own child is for the system to bury.
    assert wait_until(lambda: not processes(bundle.path), 5)
    assert asked == ["1.fake", "1.fake.again"][: times + 1]


@pytest.mark.parametrize("shared", sweep([True, False]))
def test_the_side_of_a_pair_that_is_stopped_is_started_once_more(
    bundle: Bundle, tmp_path: Path, stops: Stops, shared: bool
) -> None:
    stops("1.fake.candidate", 1)
    python = interpreter(tmp_path, "1.fake.candidate", times=1, act=STOP)
    notes: list[str] = []
    stacks = {Side.REFERENCE: stack(), Side.CANDIDATE: stack(starter(python))}
    asked = executor(bundle, notes.append)
    running = Schedule(asked, keyed(case(1024)), PLAN, stacks, shared=shared)
    running.run()
    launches = [running.measurements(side)[0].runs[0].launch.text for side in Side]
    assert launches == ["1.fake.reference", "1.fake.candidate.again"]
    assert len(notes) == 1
    assert not processes(bundle.path)


def test_a_group_of_which_one_is_stopped_is_started_once_more(
    bundle: Bundle, tmp_path: Path, stops: Stops
) -> None:
    stops("1.worker0", 1)
    begin = replace(starter(interpreter(tmp_path, "1.worker0", times=1, act=STOP)), processes=2)
    notes: list[str] = []
    opened = executor(bundle, notes.append)
    group = opened.opened(begin, LaunchId.parse("1"))
    assert isinstance(group, Group)
    opened.close(group)
    (note,) = notes
    assert note.startswith("launch 1.worker0: worker 0: the worker did not answer within 0.")
    assert not processes(bundle.path)


@pytest.mark.parametrize("times", [1, 2])
def test_a_probe_that_is_stopped_is_tried_once_more(
    bundle: Bundle, tmp_path: Path, stops: Stops, times: int
) -> None:
    stops("probe", times)
    begin = starter(interpreter(tmp_path, "probe", times=times, act=STOP))
    notes: list[str] = []
    asked = executor(bundle, notes.append)
    if times == 1:
        assert probe(begin, asked).framework == "fake"
    else:
        with pytest.raises(
            ProbeCutShort, match=r"did not answer within 0\.\d s.*; it was tried twice$"
        ):
            probe(begin, asked)
    (note,) = notes
    assert note.startswith("launch probe: the worker did not answer within 0.")
    assert not processes(bundle.path)


def opened(starting: Executor, then: str = "") -> Group:
    """A group of one that is ready; `then` is what happens to it in mid-case."""
    found = starting.opened(starter(cases=[{"then": then}]), LAUNCH)
    assert isinstance(found, Group)
    return found


def test_whatever_ends_it_no_group_is_left(bundle: Bundle) -> None:
    with pytest.raises(KeyboardInterrupt), executor(bundle) as starting:
        opened(starting)
        starting.start(starter(), LaunchId.parse("2.fake"))
        assert wait_until(lambda: len(processes(bundle.path)) == 2)
        raise KeyboardInterrupt
    assert not processes(bundle.path)


def test_it_goes_on_after_it_ended_all_groups(bundle: Bundle) -> None:
    starting = executor(bundle)
    for _ in range(2):
        with starting:
            opened(starting)
        assert not processes(bundle.path)
    assert not starting.is_stopped


def test_an_interrupt_while_it_ends_groups_leaves_none_alive(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is impatient interrupts twice."""
    workers: list[Worker] = []
    starting = Executor(Watched(bundle, lambda worker, event: workers.append(worker)))
    opened(starting)
    opened(starting)

    def interrupted(worker: Worker) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "kill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            starting.kill()
    assert wait_until(lambda: not processes(bundle.path), 5)
    for worker in workers:
        worker.kill()


def test_a_group_that_ends_by_itself_is_closed_without_a_note(bundle: Bundle) -> None:
    notes: list[str] = []
    starting = executor(bundle, notes.append)
    starting.close(opened(starting))
    assert not processes(bundle.path)
    assert not notes


def test_a_worker_that_died_before_is_closed_without_a_note(bundle: Bundle) -> None:
    notes: list[str] = []
    starting = executor(bundle, notes.append)
    group = opened(starting, "kill")
    assert isinstance(group.ask(measure(), LONG_S, "measuring"), Failure)
    starting.close(group)
    assert not notes


def test_stopped_from_another_thread_what_is_asked_ends_and_nothing_begins_again(
    bundle: Bundle,
) -> None:
    notes: list[str] = []
    starting = executor(bundle, notes.append)
    with starting:
        group = opened(starting, "hang")
        timer = threading.Timer(0.4, starting.stop)
        timer.start()
        failure = group.ask(measure(), LONG_S, "measuring")
        timer.join()
        assert isinstance(failure, Failure)
        assert failure.kind is FailureKind.KILLED
        assert starting.is_stopped
        late = starting.opened(starter(), LaunchId.parse("2.fake"))
    assert isinstance(late, Failure)
    assert late.kind is FailureKind.KILLED
    assert late.launch.text == "2.fake"
    assert not notes
    assert not processes(bundle.path)


def test_time_is_counted_to_its_phase_whatever_ends_it(bundle: Bundle) -> None:
    ticks = iter((1.0, 3.0, 10.0, 14.0, 20.0, 21.0))
    counting = Executor(Watched(bundle, lambda worker, event: None), clock=lambda: next(ticks))
    with counting.counted("starting"):
        pass
    with pytest.raises(KeyboardInterrupt), counting.counted("measuring"):
        raise KeyboardInterrupt
    with counting.counted("starting"):
        pass
    assert counting.spent_s == {"starting": 3.0, "measuring": 4.0}


def test_it_says_what_devices_and_versions_there_are(bundle: Bundle) -> None:
    found = probe(starter(device="tpu", device_kind="TPU v2", ranks=8), executor(bundle))
    (devices,) = found.devices
    assert (devices.device, devices.device_kind, devices.ranks) == (Device.TPU, "TPU v2", 8)
    assert found.versions == {"fake": "1"}
    assert not processes(bundle.path)


def test_a_device_that_is_not_reached_is_missing_with_a_reason(bundle: Bundle) -> None:
    found = probe(replace(starter(), device="tpu"), executor(bundle))
    assert found.devices == ()
    assert found.missing == {"tpu": "not in the script"}


def test_a_worker_that_dies_is_told_with_the_last_line_of_its_log(bundle: Bundle) -> None:
    with pytest.raises(ProbeFailed, match=r"ended with exit code 3 .*: the script says exit"):
        probe(starter(probe="exit"), executor(bundle))
    assert not processes(bundle.path)


def test_a_worker_that_does_not_start_is_told_too(bundle: Bundle) -> None:
    with pytest.raises(ProbeFailed, match=r"^/bin/false: .*exit code 1.*nothing in its log"):
        probe(starter("/bin/false"), executor(bundle))


@pytest.mark.parametrize(
    ("framework", "version", "oldest"),
    [("jax", "0.4.38", "0.5.0"), ("tensorflow", "2.15.1", "2.16")],
)
def test_a_framework_that_is_too_old_is_told_in_one_sentence(
    bundle: Bundle, tmp_path: Path, framework: str, version: str, oldest: str
) -> None:
    (tmp_path / f"{framework}.py").write_text(f"__version__ = {version!r}\n")
    old = replace(starter(), framework=framework, environment={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(ProbeFailed) as told:
        probe(old, executor(bundle))
    said = f"{framework} {version} is too old: expected {oldest} or newer"
    assert str(told.value).endswith(f"looking for devices with {framework}: {said}")
    assert (bundle.log_path(f"probe.{framework}")).read_text().strip() == said


@pytest.mark.exhaustive
def test_it_has_a_deadline(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("busbw.driver.executor"), "PROBE_TIMEOUT_S", 1.0)
    with pytest.raises(
        ProbeFailed, match=r"did not answer within 1[.\d]* s while looking for devices"
    ):
        probe(starter(probe="hang"), executor(bundle))
    assert not processes(bundle.path)
