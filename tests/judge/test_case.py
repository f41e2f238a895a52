"""One case against its baseline: every outcome, what makes it fail, and the words it gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw import judge
from busbw.judge import Policy, Terms, Tier
from busbw.judge.case import limit_of
from busbw.model import (
    MIB,
    Baseline,
    Failure,
    FailureKind,
    Found,
    Measurement,
    Outcome,
    Reference,
    Verdict,
)
from tests import build

POLICY = Policy(
    tiers=(
        Tier(up_to_bytes=MIB, floor=0.2, ceiling=0.4),
        Tier(up_to_bytes=None, floor=0.1, ceiling=0.2),
    ),
    noise_factor=3.0,
    full_launches=5,
    provisional=0.5,
    least_difference_s=1e-6,
)
# Five launches that hardly differ: the limit is the floor of the tier, 1.2 times 1 ms.
STEADY = build.baseline(1e-3, 1e-3, 1e-3, 1e-3, 1e-3)
OOM = build.baseline()

HARD = [kind for kind in FailureKind if kind is not FailureKind.OUT_OF_MEMORY]


def _judged(measurement: Measurement, baseline: Baseline | None, **given: Any) -> Verdict:
    words = {name: given.pop(name) for name in ("nearest", "reference") if name in given}
    terms = Terms(policy=POLICY, **given)
    return judge.judge_case(build.spec(), measurement, baseline, terms, **words)


def _all_out_of_memory(**changes: Any) -> Measurement:
    return build.measurement(failures=(build.out_of_memory(**changes),) * 3)


def test_a_summary_takes_its_rates_from_the_median_launch() -> None:
    summary = judge.summary_of(build.case(payload_bytes=10**6, ranks=4), [4e-3, 1e-3, 2e-3])
    assert (summary.median_s, summary.best_s, summary.worst_s) == (2e-3, 1e-3, 4e-3)
    assert pytest.approx(0.5) == summary.algbw_gb_per_s
    assert pytest.approx(0.75) == summary.busbw_gb_per_s
    assert summary.times_s == (4e-3, 1e-3, 2e-3)


def test_the_same_times_as_the_baseline_pass() -> None:
    verdict = _judged(build.measurement(1e-3, 1e-3, 1e-3), STEADY)
    assert Outcome.PASS is verdict.outcome
    assert not verdict.failed
    assert (verdict.ratio, verdict.ratio_interval) == (1.0, (1.0, 1.0))


def test_times_beyond_the_limit_in_every_launch_have_regressed() -> None:
    verdict = _judged(build.measurement(1.3e-3, 1.5e-3, 1.4e-3), STEADY)
    assert Outcome.REGRESSED is verdict.outcome
    assert verdict.failed
    assert pytest.approx(1.4) == verdict.ratio
    assert pytest.approx((1.3, 1.5)) == verdict.ratio_interval
    assert "even the best launch, 1.3 ms, is 1.30 x (limit 1.20 x)" in verdict.text


def test_one_launch_within_the_limit_is_no_regression() -> None:
    assert Outcome.PASS is _judged(build.measurement(1.1e-3, 1.5e-3, 1.4e-3), STEADY).outcome


def test_a_time_is_within_the_limit_up_to_the_limit_itself() -> None:
    assert Outcome.PASS is _judged(build.measurement(1.2e-3), STEADY).outcome
    assert Outcome.REGRESSED is _judged(build.measurement(1.201e-3), STEADY).outcome


def test_a_median_faster_within_the_limit_is_as_before() -> None:
    assert Outcome.PASS is _judged(build.measurement(0.84e-3), STEADY).outcome


def test_a_median_faster_than_the_limit_allows_has_improved_and_does_not_fail() -> None:
    verdict = _judged(build.measurement(0.8e-3, 0.81e-3, 0.82e-3), STEADY, require_baselines=True)
    assert Outcome.IMPROVED is verdict.outcome
    assert not verdict.failed
    assert "the baseline is stale" in verdict.text


def test_the_time_of_a_launch_is_the_quartile_of_its_samples() -> None:
    runs = (build.run(1e-3, 1e-3, 1e-3, 9e-3),)
    now = _judged(Measurement(case=build.case(), runs=runs), STEADY).now
    assert now is not None and now.median_s == 1e-3


def test_a_regression_that_is_accepted_keeps_its_outcome_and_does_not_fail() -> None:
    slow = build.measurement(2e-3)
    assert Outcome.REGRESSED is _judged(slow, STEADY, accept_all=True).outcome
    assert not _judged(slow, STEADY, accept_all=True).failed
    assert _judged(slow, STEADY, accept_new=True).failed


@pytest.mark.parametrize(
    ("times_s", "limit"),
    [
        ((1e-3,) * 5, 1.2),
        ((0.9e-3, 0.95e-3, 1e-3, 1.05e-3, 1.1e-3), 1.22239),
        ((0.5e-3, 0.7e-3, 1e-3, 1.3e-3, 1.5e-3), 1.4),
    ],
)
def test_the_limit_is_the_baselines_own_noise_between_floor_and_ceiling(
    times_s: tuple[float, ...], limit: float
) -> None:
    summary = judge.summary_of(build.case(), times_s)
    assert pytest.approx((limit, False)) == limit_of(summary, 4096, POLICY)


def test_with_few_launches_the_limit_is_provisional_and_says_so() -> None:
    verdict = _judged(build.measurement(1.4e-3), build.baseline(1e-3, 1e-3))
    assert Outcome.PASS is verdict.outcome
    assert verdict.provisional
    assert verdict.limit == 1.5
    assert "limit 1.50 x, provisional: 2 baseline launches" in verdict.text


def test_a_larger_payload_has_the_limit_of_its_tier() -> None:
    baseline = build.baseline(*STEADY.times_s, payload_bytes=2 * MIB)
    slower = build.measurement(1.15e-3, payload_bytes=2 * MIB)
    assert Outcome.REGRESSED is _judged(slower, baseline).outcome


def test_a_difference_that_no_clock_resolves_is_no_regression() -> None:
    baseline = build.baseline(*(1e-6,) * 5)
    assert Outcome.PASS is _judged(build.measurement(1.9e-6), baseline).outcome
    assert Outcome.REGRESSED is _judged(build.measurement(2.1e-6), baseline).outcome


@given(st.floats(min_value=0.01, max_value=100), st.floats(min_value=1.0, max_value=10))
def test_a_slower_measurement_never_has_a_better_outcome(first: float, times: float) -> None:
    order = [Outcome.IMPROVED, Outcome.PASS, Outcome.REGRESSED]
    before = _judged(build.measurement(first * 1e-3), STEADY).outcome
    after = _judged(build.measurement(first * times * 1e-3), STEADY).outcome
    assert order.index(before) <= order.index(after)


def test_without_a_baseline_it_is_measured_and_not_compared() -> None:
    verdict = _judged(build.measurement(1e-3), None, nearest="the nearest is far")
    assert Outcome.NO_BASELINE is verdict.outcome
    assert verdict.text == "measured, nothing to compare with; the nearest is far"
    assert verdict.now is not None
    assert not verdict.failed


@pytest.mark.parametrize(
    ("accept", "failed"), [({}, True), ({"accept_all": True}, False), ({"accept_new": True}, False)]
)
@pytest.mark.parametrize("measured", [build.measurement(1e-3), _all_out_of_memory()])
def test_where_a_baseline_is_required_none_is_a_failure_unless_it_is_accepted(
    measured: Measurement, accept: dict[str, bool], failed: bool
) -> None:
    assert failed == _judged(measured, None, require_baselines=True, **accept).failed


@pytest.mark.parametrize(
    ("terms", "failed"),
    [
        ({}, False),
        ({"require_baselines": True}, True),
        ({"require_baselines": True, "accept_new": True}, True),
        ({"require_baselines": True, "accept_all": True}, False),
    ],
)
def test_another_protocol_is_incomparable_and_passes_for_no_baseline(
    terms: dict[str, bool], failed: bool
) -> None:
    baseline = build.baseline(*STEADY.times_s, protocol="host/chain0")
    verdict = _judged(build.measurement(9e-3), baseline, **terms)
    assert (Outcome.INCOMPARABLE, failed) == (verdict.outcome, verdict.failed)
    assert "with protocol host/chain2, the baseline of 2026-01-02 with host/chain0" in verdict.text


def test_a_case_that_was_never_measured_has_failed() -> None:
    verdict = _judged(build.measurement(), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.text == "it was not measured"


@pytest.mark.parametrize("kind", HARD)
def test_a_single_dead_or_wrong_launch_fails_the_case_and_no_number_is_shown(
    kind: FailureKind,
) -> None:
    measurement = build.measurement(1e-3, 1e-3, failures=(build.failure(kind),))
    verdict = _judged(measurement, STEADY, accept_all=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert "in 1 of 3 launches: it broke" in verdict.text
    assert measurement.failures[0] is verdict.failure
    assert verdict.now is None


def test_a_dead_launch_counts_more_than_one_out_of_memory() -> None:
    both = build.measurement(failures=(build.out_of_memory(), build.failure(FailureKind.TIMEOUT)))
    assert _judged(both, OOM).text.startswith("timeout in 1 of 2 launches")


def test_out_of_memory_in_some_launches_is_a_failure() -> None:
    measurement = build.measurement(1e-3, 1e-3, failures=(build.out_of_memory(),))
    verdict = _judged(measurement, STEADY, accept_all=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.FAILED, True)
    assert verdict.text == "out of memory in 1 of 3 launches: it broke"


def test_out_of_memory_as_in_the_baseline_is_expected() -> None:
    verdict = _judged(_all_out_of_memory(), OOM, require_baselines=True)
    assert (
        verdict.outcome,
        verdict.failed,
        verdict.expected,
    ) == (Outcome.OUT_OF_MEMORY, False, True)


def test_out_of_memory_where_there_was_a_time_is_a_failure_that_names_the_time() -> None:
    verdict = _judged(_all_out_of_memory(), STEADY)
    assert (
        verdict.outcome,
        verdict.failed,
        verdict.expected,
    ) == (Outcome.OUT_OF_MEMORY, True, False)
    assert "the baseline of 2026-01-02 has 1 ms" in verdict.text
    assert not _judged(_all_out_of_memory(), STEADY, accept_all=True).failed


def test_what_fits_now_and_did_not_has_improved() -> None:
    assert _judged(build.measurement(1e-3), OOM).headline().startswith("IMPROVED: it fits now")


def _momentary(**changes: Any) -> Failure:
    bytes_of = {"needed_bytes": 10, "available_bytes": 5, "capacity_bytes": 20, **changes}
    return build.out_of_memory(found=Found.PREDICTED, **bytes_of)


def test_memory_that_others_hold_at_the_moment_is_incomparable_and_no_regression() -> None:
    verdict = _judged(build.measurement(failures=(_momentary(),) * 3), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.INCOMPARABLE, False)
    assert "needs 10 bytes, 5 bytes available (predicted" in verdict.text
    assert "with the machine's memory free it would fit" in verdict.text


def test_memory_that_the_machine_never_has_is_a_failure_where_there_was_a_time() -> None:
    verdict = _judged(build.measurement(failures=(_momentary(capacity_bytes=9),)), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.OUT_OF_MEMORY, True)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Found.PREDICTED, "predicted before touching memory"),
        (Found.RAISED, "raised by the framework"),
        (Found.KILLED, "the kernel killed the worker"),
        (None, "raised by the framework"),
    ],
)
def test_out_of_memory_says_how_it_was_found(found: Found | None, words: str) -> None:
    assert f"it broke ({words})" in _judged(_all_out_of_memory(found=found), None).text


def test_a_published_figure_is_shown_and_changes_nothing() -> None:
    reference = Reference(source="a paper", oom=True)
    verdict = _judged(build.measurement(1e-3), STEADY, reference=reference)
    assert (Outcome.PASS, reference) == (verdict.outcome, verdict.reference)


@pytest.mark.parametrize(
    ("measurement", "baseline", "may"),
    [
        (build.measurement(1e-3), None, True),
        (build.measurement(9e-3), STEADY, True),
        (build.measurement(1e-3), build.baseline(1e-3, protocol="other"), True),
        (_all_out_of_memory(), None, True),
        (build.measurement(failures=(_momentary(),)), STEADY, False),
        (build.measurement(failures=(_momentary(),)), None, False),
        (build.measurement(1e-3, failures=(build.out_of_memory(),)), None, False),
        (build.measurement(failures=(build.failure(),)), None, False),
    ],
)
def test_what_was_measured_may_be_stored_and_no_failure_but_memory_lacking_for_good(
    measurement: Measurement, baseline: Baseline | None, may: bool
) -> None:
    assert may == judge.may_become_baseline(_judged(measurement, baseline))
    assert not judge.may_become_baseline(build.verdict(Outcome.SKIPPED))
