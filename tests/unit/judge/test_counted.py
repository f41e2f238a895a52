"""What devices counted, at a verdict: notes, and an excuse where they were throttled."""

from __future__ import annotations

from dataclasses import replace

from busbw.judge.validity import apply_counters
from busbw.model.counters import Counted, Quota
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from tests.helpers import build

HOT = Counted(errors={"gpu 0 PCIe replays": (1, 3)}, throttled_s={"gpu 1 heat": 2.0})


def _outcome(outcome: Outcome, counted: Counted, *, paired: bool = False) -> Verdict:
    failed = outcome is Outcome.REGRESSED
    verdict = Verdict(spec=build.spec(), outcome=outcome, failed=failed, text="so")
    return apply_counters(verdict, counted, paired=paired)


def test_a_slow_case_is_noisy_where_a_device_was_throttled() -> None:
    verdict = _outcome(Outcome.REGRESSED, HOT)
    assert (verdict.outcome, verdict.failed) == (Outcome.NOISY, False)
    assert verdict.text == "so; gpu 1 heat: throttled for 2 s"
    assert verdict.notes == ("gpu 0 PCIe replays 1 -> 3", "gpu 1 heat: throttled for 2 s")


def test_errors_alone_and_two_stacks_in_turn_excuse_nothing() -> None:
    only_errors = replace(HOT, throttled_s={})
    for verdict in (
        _outcome(Outcome.REGRESSED, only_errors),
        _outcome(Outcome.REGRESSED, HOT, paired=True),
    ):
        assert (verdict.outcome, verdict.failed) == (Outcome.REGRESSED, True)
        assert verdict.notes
    assert _outcome(Outcome.PASS, HOT).outcome is Outcome.PASS


QUOTA = Quota(cpus=0.25, period_s=0.1, periods=1200, throttled_periods=677, throttled_s=12.3)
STOPPED = Counted(quotas={"": QUOTA})


def _slow(ratio: float, sampling_s: float) -> Verdict:
    verdict = Verdict(
        spec=build.spec(), outcome=Outcome.REGRESSED, failed=True, text="so", ratio=ratio
    )
    return apply_counters(verdict, STOPPED, sampling_s=sampling_s)


def test_a_case_that_a_cpu_quota_stopped_for_as_long_as_it_lost_is_noisy() -> None:
    verdict = _slow(2.81, sampling_s=15.0)
    assert (verdict.outcome, verdict.failed) == (Outcome.NOISY, False)
    text = "throttled in 677 of 1,200 periods, 12.3 s, quota 0.25 CPU"
    assert (verdict.text, verdict.notes) == (f"so; {text}", (text,))


def test_a_loss_that_a_cpu_quota_does_not_explain_is_a_loss_all_the_same() -> None:
    # Half of 100 s are lost; stops of 12.3 s are less than a third of that.
    verdict = _slow(2.0, sampling_s=100.0)
    assert (verdict.outcome, verdict.failed) == (Outcome.REGRESSED, True)
    assert verdict.notes
    assert _slow(2.0, sampling_s=70.0).outcome is Outcome.NOISY


def test_where_it_is_not_known_how_long_was_sampled_any_stop_explains_a_loss() -> None:
    assert _slow(9.0, sampling_s=0.0).outcome is Outcome.NOISY
