"""What devices counted, at a verdict: notes, and an excuse where they were throttled."""

from __future__ import annotations

from dataclasses import replace

from busbw.judge.validity import with_counted
from busbw.model.counters import Counted
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from tests import build

HOT = Counted(errors={"gpu 0 PCIe replays": (1, 3)}, throttled_s={"gpu 1 heat": 2.0})


def _outcome(outcome: Outcome, counted: Counted, *, paired: bool = False) -> Verdict:
    failed = outcome is Outcome.REGRESSED
    verdict = Verdict(spec=build.spec(), outcome=outcome, failed=failed, text="so")
    return with_counted(verdict, counted, paired=paired)


def test_a_slow_case_is_noisy_where_a_device_was_throttled() -> None:
    found = _outcome(Outcome.REGRESSED, HOT)
    assert (found.outcome, found.failed) == (Outcome.NOISY, False)
    assert found.text == "so; gpu 1 heat: throttled for 2 s"
    assert found.notes == ("gpu 0 PCIe replays 1 -> 3", "gpu 1 heat: throttled for 2 s")


def test_errors_alone_and_two_stacks_in_turn_excuse_nothing() -> None:
    only_errors = replace(HOT, throttled_s={})
    for found in (
        _outcome(Outcome.REGRESSED, only_errors),
        _outcome(Outcome.REGRESSED, HOT, paired=True),
    ):
        assert (found.outcome, found.failed) == (Outcome.REGRESSED, True)
        assert found.notes
    assert _outcome(Outcome.PASS, HOT).outcome is Outcome.PASS
