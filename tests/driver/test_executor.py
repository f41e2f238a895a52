"""Starts that are cut short: a worker that is stopped, and interrupts; neither leaves anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from busbw.driver import (
    Bundle,
    Duel,
    LocalStart,
    ProbeCutShort,
    Side,
    Starter,
    Sweep,
    Worker,
    probe,
    train,
)
from busbw.model import (
    Capability,
    FailureKind,
    LaunchId,
    Net,
    TrainingAnswer,
)
from tests import build

from .dying import interpreter
from .processes import processes, wait_until
from .scripts import PLAN, case, keyed, starter

STOP = "kill -STOP $$"
# Long enough for the fake back end to start, however busy the machine is.
STARTS_S = 6.0


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has a deadline that can be waited for."""
    for module in ("starting", "training"):
        monkeypatch.setattr(sys.modules[f"busbw.driver.{module}"], "START_TIMEOUT_S", STARTS_S)
    monkeypatch.setattr(sys.modules["busbw.driver.probe"], "PROBE_TIMEOUT_S", STARTS_S)


def sweep(bundle: Bundle, begin: Starter, *, handover: bool = False) -> tuple[Sweep, list[str]]:
    """One that was begun, and its notes."""
    notes: list[str] = []
    running = Sweep(
        cases=keyed(case(1024)),
        plan=PLAN,
        starters={"fake": begin},
        bundle=bundle,
        handover=handover,
        on_note=notes.append,
    )
    return running, notes


@pytest.mark.parametrize("handover", [True, False])
def test_a_worker_that_is_stopped_as_it_begins_is_killed_and_another_started(
    bundle: Bundle, tmp_path: Path, soon: None, handover: bool
) -> None:
    python = interpreter(tmp_path, "1.fake", times=1, act=STOP)
    running, notes = sweep(bundle, starter(python), handover=handover)
    running.run()
    (measured,) = running.measurements()
    assert [run.launch.text for run in measured.runs] == ["1.fake.again"]
    (note,) = notes
    assert note.startswith("launch 1.fake: the worker did not answer within 6")
    assert note.endswith(" s while starting; it was started once more")
    assert not processes(bundle.path)


def test_one_that_is_stopped_twice_fails_its_cases(
    bundle: Bundle, tmp_path: Path, soon: None
) -> None:
    running, _ = sweep(bundle, starter(interpreter(tmp_path, "1.fake", times=2, act=STOP)))
    running.run()
    (measured,) = running.measurements()
    assert [failure.kind for failure in measured.failures] == [FailureKind.TIMEOUT]
    assert not processes(bundle.path)


def test_one_that_ends_by_itself_is_not_started_again(bundle: Bundle) -> None:
    running, notes = sweep(bundle, starter("/bin/false"))
    running.run()
    (measured,) = running.measurements()
    assert [failure.launch.text for failure in measured.failures] == ["1.fake"]
    assert not notes


@pytest.mark.parametrize("times", [0, 1])
def test_an_interrupt_of_a_start_leaves_no_worker(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    real = Worker.ask
    asked: list[str] = []

    def interrupted(worker: Worker, *rest: object) -> object:
        asked.append(worker.launch.text)
        if len(asked) > times:
            raise KeyboardInterrupt
        return real(worker, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "ask", interrupted)
    running, _ = sweep(bundle, starter(interpreter(tmp_path, "1.fake", times=1)))
    with pytest.raises(KeyboardInterrupt):
        running.run()
    # The shell's own child is for the system to bury.
    assert wait_until(lambda: not processes(bundle.path), 5)
    assert asked == ["1.fake", "1.fake.again"][: times + 1]


@pytest.mark.parametrize("at_once", [True, False])
def test_the_side_of_a_pair_that_is_stopped_is_started_once_more(
    bundle: Bundle, tmp_path: Path, soon: None, at_once: bool
) -> None:
    python = interpreter(tmp_path, "1.fake.candidate", times=1, act=STOP)
    notes: list[str] = []
    running = Duel(
        cases=keyed(case(1024)),
        plan=PLAN,
        starters={"fake": {Side.REFERENCE: starter(), Side.CANDIDATE: starter(python)}},
        bundle=bundle,
        at_once=at_once,
        on_note=notes.append,
    )
    running.run()
    launches = [running.measurements(side)[0].runs[0].launch.text for side in Side]
    assert launches == ["1.fake.reference", "1.fake.candidate.again"]
    assert len(notes) == 1
    assert not processes(bundle.path)


def test_a_group_of_which_one_is_stopped_is_started_once_more(
    bundle: Bundle, tmp_path: Path, soon: None
) -> None:
    python = interpreter(tmp_path, "1.worker0", times=1, act=STOP)
    begin = Starter(python=python, framework="fake", capability=Capability.TRAIN, device="cpu")
    request = build.training_request(Net.PERCEPTRON, ranks=2, servers=1)
    notes: list[str] = []
    start = LocalStart(starter=begin, bundle=bundle, launch=LaunchId.parse("1"))
    assert isinstance(train(request, start, 60, notes.append), TrainingAnswer)
    (note,) = notes
    assert note.startswith("launch 1.worker0: worker 0: the worker did not answer within 6")
    assert not processes(bundle.path)


@pytest.mark.parametrize("times", [1, 2])
def test_a_probe_that_is_stopped_is_tried_once_more(
    bundle: Bundle, tmp_path: Path, soon: None, times: int
) -> None:
    begin = starter(interpreter(tmp_path, "probe", times=times, act=STOP))
    notes: list[str] = []
    if times == 1:
        assert probe(begin, bundle, notes.append).framework == "fake"
    else:
        with pytest.raises(ProbeCutShort, match=r"did not answer within 6.*; it was tried twice$"):
            probe(begin, bundle, notes.append)
    (note,) = notes
    assert note.startswith("launch probe: the worker did not answer within 6")
    assert not processes(bundle.path)
