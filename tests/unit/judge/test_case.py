"""One case compared with its baseline: every outcome, its reason and its text."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.judge.case import (
    InterimVerdict,
    JudgingSettings,
    judge_case,
    plan_rerun,
    summarize_times,
)
from busbw.judge.decision import CaseLimits
from busbw.model.case import CaseSpec
from busbw.model.launch import Measurement
from busbw.model.verdict import PublishedBandwidth
from busbw.model.words import Outcome
from tests.helpers import build
from tests.unit.judge.rules import (
    OOM,
    POLICY,
    STEADY,
    all_out_of_memory,
    judged,
    limit_of,
    record,
    records,
    six,
    verdict_on,
)


def test_the_rates_of_a_case_are_computed_from_its_median_launch() -> None:
    summary = summarize_times(build.case(payload_bytes=10**6, ranks=4), [4e-3, 1e-3, 2e-3])
    assert (summary.median_s, summary.best_s, summary.worst_s) == (2e-3, 1e-3, 4e-3)
    assert pytest.approx(0.5) == summary.algbw_gb_per_s
    assert pytest.approx(0.75) == summary.busbw_gb_per_s
    assert summary.times_s == (4e-3, 1e-3, 2e-3)


def test_the_overhead_of_a_call_is_the_median_of_the_launches_that_measured_it() -> None:
    costs_s = (3e-4, None, 1e-4, 2e-4)
    runs = tuple(build.run(1e-3, dispatch_s=cost_s) for cost_s in costs_s)
    assert verdict_on(Measurement(case=build.case(), runs=runs), STEADY).now.dispatch_s == 2e-4


def test_a_case_with_the_same_times_as_its_baseline_passes_and_needs_no_more_launches() -> None:
    interim = judged(build.measurement(1e-3, 1e-3, 1e-3), STEADY)
    assert Outcome.PASS is interim.verdict.outcome
    assert (
        interim.verdict.failed,
        interim.needed_launch_count,
        interim.is_suspected,
    ) == (
        False,
        None,
        False,
    )
    assert interim.verdict.ratio == pytest.approx(1.0)
    assert interim.verdict.ratio_interval == pytest.approx((1.0, 1.0))


def test_a_case_above_its_limit_in_first_and_in_additional_launches_has_regressed() -> None:
    verdict = verdict_on(six(1.3e-3, 1.5e-3, 1.4e-3), STEADY)
    assert (verdict.outcome, verdict.failed) == (Outcome.REGRESSED, True)
    assert pytest.approx(1.4) == verdict.ratio
    assert pytest.approx((1.3, 1.5)) == verdict.ratio_interval
    assert pytest.approx(1.2) == verdict.limit
    assert verdict.text == (
        "1 ms -> 1.4 ms, 1.400 x the expected time"
        "; confirmed: 1.400 x in additional launches (limit 1.200 x)"
    )


def test_a_case_that_seems_slower_is_noisy_and_needs_more_launches() -> None:
    interim = judged(build.measurement(1.3e-3, 1.5e-3, 1.4e-3), STEADY)
    assert (interim.verdict.outcome, interim.verdict.failed) == (
        Outcome.NOISY,
        False,
    )
    assert (interim.needed_launch_count, interim.is_suspected) == (6, True)
    assert "; seems slower, not yet confirmed (limit 1.200 x" in interim.verdict.text


@pytest.mark.parametrize("fresh_s", [1e-3, 1.1e-3])
def test_the_text_of_a_case_names_a_loss_that_additional_launches_do_not_confirm(
    fresh_s: float,
) -> None:
    fresh = f"{1e3 * fresh_s:.3f} x in additional launches"
    verdict = verdict_on(build.measurement(*(1.5e-3,) * 3, *(fresh_s,) * 3), STEADY, fail_above=1.2)
    assert (verdict.outcome, verdict.failed) == (Outcome.NOISY, False)
    assert f"; slower, but not in all launches: {fresh} (limit 1.200 x" in verdict.text


@given(
    st.lists(st.floats(min_value=0.5e-3, max_value=3e-3), min_size=1, max_size=9),
    st.lists(st.floats(min_value=0.8e-3, max_value=1.2e-3), min_size=1, max_size=6),
)
def test_the_shown_ratio_and_limit_of_a_case_agree_with_its_outcome(
    times_s: list[float], before_s: list[float]
) -> None:
    verdict: Any = judged(build.measurement(*times_s), build.pooled(*records(*before_s))).verdict
    assert verdict.ratio == pytest.approx(verdict.now.median_s / verdict.baseline.median_s)
    assert f", {verdict.ratio:.3f} x the expected time" in verdict.text
    assert f"(limit {verdict.limit:.3f} x" in verdict.text
    if verdict.ratio > verdict.limit:
        assert verdict.outcome in (Outcome.NOISY, Outcome.REGRESSED)
    else:
        assert verdict.outcome is not Outcome.REGRESSED


def test_the_shown_baseline_time_is_the_level_with_which_the_case_is_compared() -> None:
    verdict = verdict_on(build.measurement(1e-3), build.pooled(*records(1e-3, 1e-3, 1.03e-3)))
    assert verdict.baseline.median_s == pytest.approx(1e-3 * 1.03 ** (1 / 3))
    assert verdict.baseline.times_s == (1e-3, 1e-3, 1.03e-3)
    rate = verdict.now.algbw_gb_per_s * verdict.ratio
    assert verdict.baseline.algbw_gb_per_s == pytest.approx(rate)


def test_the_error_of_a_ratio_shrinks_with_the_number_of_stored_sessions() -> None:
    few = verdict_on(build.measurement(1e-3), build.pooled(*records(1e-3)))
    many = verdict_on(build.measurement(1e-3), build.pooled(*records(*[1e-3] * 12)))
    assert 0 < many.ratio_error < few.ratio_error
    assert few.ratio_error == pytest.approx(math.sqrt(2) * 0.01)


@pytest.mark.parametrize(("stored", "tonight"), [(2**30, None), (None, 2**30), (2**30, 2**31)])
def test_an_out_of_memory_failure_under_another_memory_limit_than_stored_is_not_expected(
    stored: int | None, tonight: int | None
) -> None:
    limited = replace(OOM, memory_limit_bytes=stored)
    under = {"memory_limit_bytes": tonight, "require_baselines": True}
    assert not verdict_on(all_out_of_memory(), limited, **under).expected
    assert verdict_on(all_out_of_memory(), limited, **under).failed
    assert verdict_on(
        all_out_of_memory(), limited, **{**under, "memory_limit_bytes": stored}
    ).expected


def test_a_case_faster_than_its_limit_has_improved_and_does_not_fail() -> None:
    measurement = build.measurement(0.8e-3, 0.81e-3, 0.82e-3)
    verdict = verdict_on(measurement, STEADY, require_baselines=True)
    assert Outcome.IMPROVED is verdict.outcome
    assert not verdict.failed
    assert "the baseline is stale" in verdict.text


def test_the_time_of_a_launch_is_the_lower_quartile_of_its_samples() -> None:
    runs = (build.run(1e-3, 1e-3, 1e-3, 9e-3),)
    assert verdict_on(Measurement(case=build.case(), runs=runs), STEADY).now.median_s == 1e-3


def test_an_accepted_regression_keeps_its_outcome_and_does_not_fail() -> None:
    slow = six(2e-3, 2e-3, 2e-3)
    assert Outcome.REGRESSED is verdict_on(slow, STEADY, accepts_slower_times=True).outcome
    assert not verdict_on(slow, STEADY, accepts_slower_times=True).failed
    assert verdict_on(slow, STEADY, accepts_new_cases=True).failed


@pytest.mark.parametrize("number", [1, 2])
def test_a_verdict_that_is_based_on_fewer_than_three_stored_sessions_is_provisional(
    number: int,
) -> None:
    verdict = verdict_on(build.measurement(1e-3), build.pooled(*records(*[1e-3] * number)))
    assert Outcome.PASS is verdict.outcome
    assert verdict.provisional
    assert not verdict_on(build.measurement(1e-3), STEADY).provisional


def test_a_case_whose_stored_launches_differ_widely_is_noisy() -> None:
    wild = build.pooled(record(2, 0.5e-3, 1e-3, 4e-3))
    verdict = verdict_on(build.measurement(1e-3), wild)
    assert (verdict.outcome, verdict.failed) == (Outcome.NOISY, False)
    assert "; 2 x the expected time cannot be ruled out (limit " in verdict.text


def test_a_case_without_a_baseline_has_a_time_and_the_outcome_no_baseline() -> None:
    verdict = verdict_on(build.measurement(1e-3), None)
    assert Outcome.NO_BASELINE is verdict.outcome
    assert verdict.text == "measured, nothing to compare with"
    assert verdict.now is not None
    assert not verdict.failed


@pytest.mark.parametrize(
    ("accept", "failed"),
    [({}, True), ({"accepts_slower_times": True}, False), ({"accepts_new_cases": True}, False)],
)
@pytest.mark.parametrize("measured", [build.measurement(1e-3), all_out_of_memory()])
def test_a_case_without_a_required_baseline_fails_unless_its_time_is_accepted(
    measured: Measurement, accept: dict[str, bool], failed: bool
) -> None:
    assert failed == verdict_on(measured, None, require_baselines=True, **accept).failed


@pytest.mark.parametrize(
    ("terms", "failed"),
    [
        ({}, False),
        ({"require_baselines": True}, True),
        ({"require_baselines": True, "accepts_new_cases": True}, True),
        ({"require_baselines": True, "accepts_slower_times": True}, False),
    ],
)
def test_a_case_of_another_protocol_than_its_baseline_fails_if_baselines_are_required(
    terms: dict[str, bool], failed: bool
) -> None:
    baseline = build.pooled(*STEADY.sessions, protocol="host/chain0")
    verdict = verdict_on(build.measurement(9e-3), baseline, **terms)
    assert (Outcome.INCOMPARABLE, failed) == (verdict.outcome, verdict.failed)
    assert "with protocol host/chain2, the baseline of 2026-01-04 with host/chain0" in verdict.text


def test_an_out_of_memory_failure_that_the_baseline_also_has_is_expected() -> None:
    verdict = verdict_on(all_out_of_memory(), OOM, require_baselines=True)
    assert (verdict.outcome, verdict.failed, verdict.expected) == (
        Outcome.OUT_OF_MEMORY,
        False,
        True,
    )


def test_a_case_that_is_out_of_memory_fails_with_its_stored_time_in_the_text() -> None:
    verdict = verdict_on(all_out_of_memory(), STEADY)
    assert (verdict.outcome, verdict.failed, verdict.expected) == (
        Outcome.OUT_OF_MEMORY,
        True,
        False,
    )
    assert "the baseline of 2026-01-04 has 1 ms" in verdict.text
    assert not verdict_on(all_out_of_memory(), STEADY, accepts_slower_times=True).failed


@pytest.mark.parametrize("limit", [None, limit_of(STEADY, build.measurement(1e-3), POLICY)])
def test_a_case_with_a_time_has_improved_if_it_was_stored_as_out_of_memory_even_with_a_limit(
    limit: CaseLimits | None,
) -> None:
    settings = JudgingSettings(policy=POLICY)
    interim = judge_case(build.spec(), build.measurement(1e-3), OOM, limit, settings)
    assert interim.verdict.headline().startswith("IMPROVED: it fits now")


def test_a_published_rate_is_part_of_the_verdict_and_does_not_change_the_outcome() -> None:
    reference = PublishedBandwidth(source="a paper", oom=True)
    terms = JudgingSettings(policy=POLICY)
    measurement = build.measurement(1e-3)
    limit = limit_of(STEADY, measurement, POLICY)
    interim = judge_case(
        build.spec(), measurement, STEADY, limit, terms, published_bandwidth=reference
    )
    assert (Outcome.PASS, reference) == (
        interim.verdict.outcome,
        interim.verdict.published,
    )


SPECS = [build.spec(payload_bytes=1024 << place) for place in range(5)]
THREE = dict.fromkeys(SPECS, 3)


def _judged(spec: CaseSpec, needed: int | None = None, **changes: Any) -> InterimVerdict:
    suspected = changes.pop("suspected", False)
    verdict = build.verdict(Outcome.PASS, spec=spec, **changes)
    return InterimVerdict(verdict=verdict, needed_launch_count=needed, is_suspected=suspected)


def _grid(**of_place: InterimVerdict) -> dict[CaseSpec, InterimVerdict]:
    """Return decided cases, except for the cases at the named places, such as ``at2``."""
    return {spec: of_place.get(f"at{i}", _judged(spec)) for i, spec in enumerate(SPECS)}


def _suspected(place: int) -> dict[str, InterimVerdict]:
    return {f"at{place}": _judged(SPECS[place], 6, suspected=True)}


@pytest.mark.parametrize(
    ("undecided", "needed", "rerun"),
    [
        pytest.param({}, {}, ((), 0), id="all cases are decided"),
        pytest.param({"at2": _judged(SPECS[2], 9)}, {}, ((SPECS[2],), 6), id="only launches lack"),
        pytest.param(_suspected(2), {}, (tuple(SPECS[1:4]), 3), id="slower, with neighbours"),
        pytest.param(_suspected(0), {}, (tuple(SPECS[:3]), 3), id="the smallest payload"),
        pytest.param(_suspected(4), {}, (tuple(SPECS[2:]), 3), id="the largest payload"),
        pytest.param(
            {"at0": _judged(SPECS[0], 9), "at4": _judged(SPECS[4], 5)},
            {},
            ((SPECS[0], SPECS[4]), 2),
            id="the smallest number of launches that a case lacks",
        ),
        pytest.param(
            {"at0": _judged(SPECS[0], 9), "at1": _judged(SPECS[1], 6)},
            {SPECS[1]: 6},
            ((SPECS[0],), 6),
            id="a case has all needed launches",
        ),
    ],
)
def test_undecided_cases_are_measured_again_and_suspected_cases_with_their_neighbours(
    undecided: dict[str, InterimVerdict],
    needed: dict[CaseSpec, int],
    rerun: tuple[tuple[CaseSpec, ...], int],
) -> None:
    assert plan_rerun(_grid(**undecided), {**THREE, **needed}, include_neighbours=True) == rerun


def test_only_a_neighbour_that_has_the_same_dtype_and_a_time_is_measured_again() -> None:
    other = build.spec(payload_bytes=2048, dtype="bfloat16")
    judged = _grid(
        at2=_judged(SPECS[2], 6, suspected=True), at1=_judged(SPECS[1], now=None, failed=True)
    )
    judged[other] = _judged(other)
    assert plan_rerun(judged, {**THREE, other: 3}, include_neighbours=True)[0] == (
        SPECS[0],
        SPECS[2],
        SPECS[3],
    )
