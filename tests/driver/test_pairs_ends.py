"""Pairs from beginning to end: what never starts, interrupts, progress and further passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.schedules import Pairs, Progress, Side, Stack
from busbw.driver.transport import Starter
from busbw.model.case import Case
from busbw.model.launch import Injection
from busbw.model.words import Extra, FailureKind
from tests.driver.workers import PLAN, case, executor, keyed, processes, stack, starter

R, C = Side.REFERENCE, Side.CANDIDATE
CASES = (case(1024), case(2048))


def pairs(
    bundle: Bundle,
    *cases: Case,
    reference: Starter | None = None,
    candidate: Starter | None = None,
    launches: int = 1,
    shared: bool = True,
    injection: Injection | None = None,
    on_note: Callable[[str], None] = lambda note: None,
    **options: Any,
) -> Pairs:
    """Of the fake back end, over two cases if none are given; the candidate has the injection."""
    return Pairs(
        executor(bundle, on_note),
        keyed(*(cases or CASES)),
        plan=replace(PLAN, launches=launches),
        stacks={R: stack(reference), C: stack(candidate, injection)},
        shared=shared,
        **options,
    )


@pytest.mark.parametrize("shared", [True, False])
def test_an_interrupt_leaves_no_worker_and_keeps_what_was_measured(
    bundle: Bundle, shared: bool
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    notes: list[str] = []
    running = pairs(bundle, shared=shared, on_progress=interrupt, on_note=notes.append)
    with pytest.raises(KeyboardInterrupt):
        running.run()
    assert not processes(bundle.path)
    assert sorted(len(found.runs) for found in running.measurements(R)) == [0, 1]
    assert not notes


def test_an_interrupt_while_both_measure_waits_for_neither(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: object) -> bool:
        raise AssertionError("a worker that is busy is not asked to end by itself")

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("busbw.driver.local.Worker.close", never)
    with pytest.raises(KeyboardInterrupt):
        pairs(bundle, on_progress=interrupt).run()
    assert not processes(bundle.path)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("broken", Side)
def test_a_side_that_does_not_start_fails_in_every_case(
    bundle: Bundle, broken: Side, shared: bool
) -> None:
    false = starter("/bin/false")
    begin = {side: false if side is broken else None for side in Side}
    running = pairs(bundle, reference=begin[R], candidate=begin[C], shared=shared, launches=2)
    running.run()
    for found in running.measurements(broken):
        assert not found.runs
        assert [failure.kind for failure in found.failures] == [FailureKind.CRASHED] * 2
        assert "while starting" in found.failures[0].message
    other = running.measurements(R if broken is C else C)
    assert not any(found.failures for found in other)
    # Nobody to be in turn with: nothing is measured where both would be alive at once.
    assert [len(found.runs) for found in other] == ([0, 0] if shared else [2, 2])


def test_a_hang_at_exit_loses_nothing_and_is_noted_for_each_side(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.driver.local.EXIT_GRACE_S", 0.3)
    notes: list[str] = []
    script = starter(cases=[{"then": "reply_then_hang"}])
    running = pairs(bundle, case(1024), candidate=script, on_note=notes.append)
    running.run()
    assert all(len(running.measurements(side)[0].runs) == 1 for side in Side)
    assert notes == ["the worker of launch 1.fake.candidate did not end by itself and was killed"]


DELAY = Injection(extra=Extra.DELAY, share=0.5, payloads=(1024,))


@pytest.mark.parametrize("shared", [True, False])
def test_an_injection_applies_to_the_candidate_alone_and_its_payloads_alone(
    bundle: Bundle, shared: bool
) -> None:
    running = pairs(bundle, shared=shared, injection=DELAY)
    running.run()
    slowed, spared = running.measurements(C)
    before, same = running.measurements(R)
    assert [slowed.runs[0].injected, spared.runs[0].injected] == ["delay:50%@1K", ""]
    assert [before.runs[0].injected, same.runs[0].injected] == ["", ""]
    slower = [now / was for now, was in zip(slowed.runs[0].samples_s, before.runs[0].samples_s)]
    assert slower == pytest.approx([1.5] * 2)
    assert spared.runs[0].samples_s == pytest.approx(same.runs[0].samples_s)


def test_an_injected_memory_limit_is_the_candidate_s_alone(bundle: Bundle) -> None:
    limit = Injection(extra=Extra.MEMORY, limit_bytes=1)
    running = pairs(bundle, injection=limit)
    running.run()
    assert [len(found.runs) for found in running.measurements(R)] == [1, 1]
    kinds = [failure.kind for found in running.measurements(C) for failure in found.failures]
    assert kinds == [FailureKind.OUT_OF_MEMORY] * 2


def test_further_passes_count_on_and_are_of_the_cases_that_are_asked_for(bundle: Bundle) -> None:
    running = pairs(bundle)
    running.run()
    running.passes(CASES[:1], 2)
    for side in Side:
        first, second = running.measurements(side)
        assert [run.launch.text for run in first.runs] == [
            f"{n}.fake.{side.value}" for n in (1, 2, 3)
        ]
        assert [run.launch.text for run in second.runs] == [f"1.fake.{side.value}"]


@pytest.mark.parametrize(("shared", "each"), [(True, 1), (False, 2)])
def test_progress_counts_pairs_or_launches_and_comes_to_its_end(
    bundle: Bundle, shared: bool, each: int
) -> None:
    told: list[Progress] = []
    running = pairs(bundle, shared=shared, launches=2, on_progress=told.append)
    running.run()
    total = 2 * len(CASES) * each
    assert [(p.done, p.total) for p in told] == [(done, total) for done in range(total)]
    assert [p.pass_number for p in told] == [1] * (total // 2) + [2] * (total // 2)
    assert {p.passes for p in told} == {2}
    assert told[0].remaining_s is None
    assert all(p.remaining_s is not None and p.remaining_s > 0 for p in told[1:])
    running.passes(CASES[:1], 1)
    assert (told[-1].done, told[-1].total) == (total + each - 1, total + each)
    assert (told[-1].pass_number, told[-1].passes) == (3, 3)


def test_cases_whose_side_never_started_count_as_done(bundle: Bundle) -> None:
    told: list[Progress] = []
    running = pairs(bundle, shared=False, reference=starter("/bin/false"), on_progress=told.append)
    running.run()
    assert [(p.done, p.total) for p in told] == [(2, 4), (3, 4)]


def test_the_order_is_shuffled_and_the_same_for_both_sides(bundle: Bundle) -> None:
    cases = tuple(case(2**power) for power in range(8, 14))
    told: list[Progress] = []
    running = pairs(bundle, *cases, shared=False, launches=2, on_progress=told.append)
    running.run()
    sizes = [progress.case.payload_bytes for progress in told]
    quarters = [sizes[begin : begin + 6] for begin in range(0, 24, 6)]
    assert quarters[0] == quarters[1] != quarters[2] == quarters[3]


def test_the_time_of_pairs_goes_to_starting_measuring_and_ending(bundle: Bundle) -> None:
    running = pairs(bundle)
    running.run()
    assert set(running.executor.spent_s) == {"starting", "measuring", "ending"}
    assert all(seconds > 0 for seconds in running.executor.spent_s.values())


def test_frameworks_take_turns_in_each_pass_with_their_own_starters(bundle: Bundle) -> None:
    both = Stack(starters={"fake": starter(), "other": starter()})
    cases = (case(1024), case(1024, framework="other"))
    stacks = {R: both, C: both}
    running = Pairs(executor(bundle), keyed(*cases), plan=PLAN, stacks=stacks, shared=True)
    running.run()
    launches = [found.runs[0].launch.text for side in Side for found in running.measurements(side)]
    assert launches == [
        "1.fake.reference",
        "1.other.reference",
        "1.fake.candidate",
        "1.other.candidate",
    ]
