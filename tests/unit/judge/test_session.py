"""The verdict on a session: it passes only if all its cases were measured and judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.judge.case import JudgingSettings
from busbw.judge.noise import SessionNoise
from busbw.judge.policy import POLICIES
from busbw.judge.rule import SharedPart
from busbw.judge.session import (
    SessionVerdictInput,
    judge_session,
    noisy_cases_text,
    select_counted_noisy_verdicts,
    slower_framework_text,
)
from busbw.model.launch import Measurement
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import DeviceClass, Outcome, SessionOutcome
from tests.helpers import build

ON_CPU, ON_TPU = (
    JudgingSettings(policy=POLICIES[DeviceClass.CPU]),
    JudgingSettings(policy=POLICIES[DeviceClass.TPU]),
)
FOUR_LAUNCHES = replace(ON_TPU, planned_launch_count=4)


def _session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], **about: Any
) -> SessionVerdict:
    return judge_session(
        verdicts, measurements, SessionVerdictInput(**{"settings": ON_TPU, **about})
    )


def _judge_measured_case(**about: Any) -> SessionVerdict:
    """Judge a session in which its only case was measured, in these circumstances."""
    return _session([build.verdict()], [build.measurement(1e-3, 1e-3, 1e-3)], **about)


def test_a_session_with_all_its_launches_passes_and_states_the_number_of_launches() -> None:
    session = _judge_measured_case()
    assert SessionOutcome.PASS is session.outcome
    assert session.text == "1 case measured in 3 launches each, none of them compared"


def test_a_session_with_additional_launches_states_the_range_of_the_number_of_launches() -> None:
    measured = [build.measurement(*(1e-3,) * 3), build.measurement(*(1e-3,) * 9)]
    session = _session([build.verdict()] * 2, measured)
    assert session.text == "2 cases measured in 3 to 9 launches each, none of them compared"


def test_a_failed_launch_counts_toward_the_requested_number_of_launches() -> None:
    measurement = build.measurement(1e-3, failures=(build.failure(), build.failure()))
    assert SessionOutcome.PASS is _session([build.verdict()], [measurement]).outcome


def test_a_session_that_measured_nothing_has_no_verdict_and_states_each_reason_once() -> None:
    assert _session([], []).headline() == "NO_VERDICT: nothing was measured"
    skipped = [build.verdict(Outcome.SKIPPED, text=text) for text in ("b", "a", "b")]
    assert _session(skipped, []).headline() == "NO_VERDICT: nothing was measured: a; b"
    assert _session([build.verdict()], [build.measurement()]).outcome is SessionOutcome.NO_VERDICT


def test_a_session_with_a_missing_launch_has_no_verdict_and_names_the_first_case() -> None:
    short = build.measurement(1e-3, 1e-3, payload_bytes=1024)
    whole = build.measurement(1e-3, 1e-3, 1e-3)
    session = _session([build.verdict()] * 2, [whole, short])
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert (
        session.text
        == "1 case with fewer than 3 launches; the first is jax.all_reduce.psum.float32.1K"
    )


def _judged_cases(noisy: int, judged: int, skipped: int = 0) -> SessionVerdict:
    verdicts = [build.verdict(Outcome.NOISY, ratio=1.0)] * noisy
    verdicts += [build.verdict(ratio=1.0)] * (judged - noisy)
    verdicts += [build.verdict(Outcome.SKIPPED, case=None, now=None)] * skipped
    return _session(verdicts, [build.measurement(1e-3, 1e-3, 1e-3)] * judged)


@pytest.mark.parametrize(("noisy", "fine"), [(1, True), (2, False)])
def test_a_session_has_no_verdict_if_more_than_a_tenth_of_its_cases_are_noisy(
    noisy: int, fine: bool
) -> None:
    session = _judged_cases(noisy, 10)
    assert fine == (session.outcome is SessionOutcome.PASS)
    words = "2 of 10 cases too noisy to judge; the first is jax.all_reduce.psum.float32.4K"
    assert fine or session.text == words


@pytest.mark.parametrize("skipped", [0, 21])
def test_the_percentage_of_noisy_cases_in_a_session_does_not_count_skipped_cases(
    skipped: int,
) -> None:
    session = _judged_cases(4, 21, skipped)
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text.startswith("4 of 21 cases too noisy to judge")
    assert SessionOutcome.PASS is _judged_cases(2, 21, skipped).outcome


SLOWER = "jax: all 21 cases together take 1.030 x the expected time (limit 1.015 x)"
DRIFTED = "jax.all_reduce.psum.float32.4K is 3 % slower than accepted"


@pytest.mark.parametrize(
    ("about", "outcome", "text"),
    [
        (
            {"slower_framework_texts": (SLOWER, "rate")},
            SessionOutcome.SLOWER,
            f"{SLOWER}; rate; stack or machine: unknown",
        ),
        ({"drift_text": DRIFTED}, SessionOutcome.DRIFT, DRIFTED),
        (
            {"drift_text": DRIFTED, "slower_framework_texts": ("rate",)},
            SessionOutcome.SLOWER,
            f"rate; stack or machine: unknown; {DRIFTED}",
        ),
    ],
)
def test_a_slowdown_of_all_cases_or_a_drift_fails_a_session_even_if_each_case_passes(
    about: dict[str, Any], outcome: SessionOutcome, text: str
) -> None:
    session = _judge_measured_case(**about)
    assert (session.outcome, session.failed, session.text) == (outcome, True, text)


def test_a_session_with_several_outcomes_lists_them_in_the_order_of_severity() -> None:
    whole = {"slower_framework_texts": ("rate",), "drift_text": DRIFTED}
    session = _judge_measured_case(**whole, settings=FOUR_LAUNCHES)
    assert session.outcomes == (
        SessionOutcome.SLOWER,
        SessionOutcome.DRIFT,
        SessionOutcome.NO_VERDICT,
    )
    assert session.headline().startswith("SLOWER, DRIFT, NO_VERDICT: rate;")
    assert DRIFTED in session.text and "fewer than 4 launches" in session.text
    accepted = _judge_measured_case(**whole, settings=FOUR_LAUNCHES, accepts_all_times=True)
    assert accepted.outcomes == (SessionOutcome.NO_VERDICT,)


def test_the_first_outcome_of_a_session_with_a_failed_case_is_failed() -> None:
    slow = build.verdict(Outcome.REGRESSED, failed=True)
    session = _session([slow], [build.measurement(1e-3, 1e-3)], drift_text=DRIFTED)
    assert session.outcomes == (
        SessionOutcome.FAILED,
        SessionOutcome.DRIFT,
        SessionOutcome.NO_VERDICT,
    )
    assert session.text.startswith("1 of 1 case failed: 1 REGRESSED; ")


@pytest.mark.parametrize("about", [{"slower_framework_texts": (SLOWER,)}, {"drift_text": DRIFTED}])
def test_an_update_accepts_a_loss_of_all_cases_or_a_drift_and_names_the_accepted_loss(
    about: dict[str, Any],
) -> None:
    session = _judge_measured_case(**about, accepts_all_times=True)
    assert (session.outcome, session.failed) == (SessionOutcome.PASS, False)
    (lost,) = (SLOWER,) if "slower_framework_texts" in about else (DRIFTED,)
    assert f"; accepted: {lost}" in session.text


def _shared(ratio: float, limit: float) -> SharedPart:
    off = math.log(ratio)
    noise = SessionNoise(sum_of_squares=1.0, degrees_of_freedom=1.0)
    return SharedPart(
        expected_log_ratio=0.0,
        shift_log_ratio=off,
        max_shift_log_ratio=math.log(limit),
        stddev=0.01,
        noise=noise,
    )


def test_all_cases_of_a_framework_are_SLOWER_only_if_the_shared_part_exceeds_its_limit() -> None:
    assert not _shared(1.19, 1.2).is_slower and not _shared(0.5, 1.2).is_slower
    slower = _shared(1.21, 1.2)
    assert slower.is_slower
    assert slower_framework_text("jax", 21, slower) == (
        "jax: all 21 cases together take 1.210 x the expected time (limit 1.200 x)"
    )


def test_a_session_that_is_noisier_than_earlier_sessions_states_by_which_factor() -> None:
    session = _judge_measured_case(noise_ratio=2.96, recent_noisy_session_count=4)
    assert session.outcome is SessionOutcome.NO_VERDICT
    assert (
        "noisier than usual: cases deviate 3.0 x as much from their levels as in earlier sessions, "
        "as in 4 of the last 10; --update-baselines accepts it"
    ) in session.text
    assert (
        _judge_measured_case(noise_ratio=2.96, accepts_all_times=True).outcome
        is SessionOutcome.PASS
    )


def _noisy(*ratios: float, limit: float = 2.3) -> list[Verdict]:
    return [build.verdict(Outcome.NOISY, ratio=ratio, limit=limit) for ratio in ratios]


def test_the_text_of_a_session_lists_noisy_cases_above_their_limit_before_other_cases() -> None:
    name = "jax.all_reduce.psum.float32.4K"
    verdicts = [*_noisy(1.9, 0.9), *_noisy(1.4, limit=1.3), build.verdict(ratio=2.2, limit=2.3)]
    assert noisy_cases_text(verdicts) == (
        f"NOISY: {name} 1.40 x (limit 1.30 x), {name} 1.90 x (limit 2.30 x)"
    )
    assert noisy_cases_text(_noisy(0.9)) == ""
    assert noisy_cases_text(_noisy(*[1.9] * 10)).endswith("(limit 2.30 x), and 2 cases more")


def test_a_passing_session_lists_each_noisy_case_above_its_limit_with_its_ratio() -> None:
    ratios = {1 << 20: 2.74, 1 << 21: 3.1, 1 << 22: 2.6, 1 << 23: 12.34, 1 << 24: 2.5, 1 << 25: 1.0}
    verdicts = [
        build.verdict(
            Outcome.NOISY if ratio > 2.4 else Outcome.PASS,
            spec=build.spec(payload_bytes=payload),
            case=build.case(payload_bytes=payload),
            ratio=ratio,
            limit=2.41,
        )
        for payload, ratio in ratios.items()
    ]
    measured = [build.measurement(1e-3, 1e-3, 1e-3)] * len(verdicts)
    session = _session(verdicts, measured, settings=ON_CPU)
    assert session.outcome is SessionOutcome.PASS
    named = ", ".join(
        f"jax.all_reduce.psum.float32.{size} {ratio} x (limit 2.41 x)"
        for size, ratio in (
            *(("8M", "12.3"), ("2M", "3.10"), ("1M", "2.74"), ("4M", "2.60"), ("16M", "2.50")),
        )
    )
    assert session.text.endswith(f"; NOISY: {named}")


@pytest.mark.parametrize(
    ("terms", "noisy", "counted"),
    [
        # On a device of one's own all count, but for a single case within its limit.
        (ON_TPU, _noisy(1.01, limit=1.02), 0),
        (ON_TPU, _noisy(1.03, limit=1.02), 1),
        (ON_TPU, _noisy(1.01, 1.01, 1.03, limit=1.02), 3),
        (ON_TPU, _noisy(1.01, limit=1.6), 1),
        # On a shared CPU only those that nothing can be said of.
        (ON_CPU, _noisy(2.74, 2.5, 2.4, 2.0, limit=2.3), 0),
        (ON_CPU, _noisy(2.0, limit=4.1), 1),
        # A limit that the user set: what lies within it is as the user wants it.
        (replace(ON_TPU, fail_above=1.25), _noisy(1.2, 1.2, 1.3, limit=1.25), 1),
        (replace(ON_CPU, fail_above=1.25), _noisy(1.3, limit=1.25), 0),
    ],
)
def test_the_device_and_the_limit_decide_which_noisy_cases_count_against_a_session(
    terms: JudgingSettings, noisy: list[Verdict], counted: int
) -> None:
    verdicts, context = (
        [*noisy, build.verdict(ratio=9.0, limit=1.01)],
        SessionVerdictInput(settings=terms),
    )
    assert len(select_counted_noisy_verdicts(verdicts, context)) == counted
    # Two stacks that are interleaved: a NOISY case is undecided.
    assert select_counted_noisy_verdicts(verdicts, replace(context, has_baselines=False)) == noisy


def test_a_session_without_a_verdict_states_every_reason_even_if_each_case_passes() -> None:
    reasons = ("the clock fell back", "--x")
    session = _judge_measured_case(no_verdict_reasons=reasons)
    assert session.headline().startswith("NO_VERDICT: the clock fell back; --x")
    text = _judge_measured_case(settings=FOUR_LAUNCHES, no_verdict_reasons=reasons).text
    assert "fewer than 4 launches" in text and "the clock fell back; --x" in text


def test_a_case_above_its_limit_during_throttling_leaves_the_session_without_a_verdict() -> None:
    slow = build.verdict(outcome=Outcome.NOISY, ratio=2.81, limit=1.7)
    measured = [build.measurement(1e-3, 1e-3, 1e-3)]
    # A limit that is narrow enough has judged what is noisy for another reason.
    assert not _session([slow], measured, settings=ON_CPU).failed
    session = _session([slow], measured, settings=ON_CPU, doubted_cases=frozenset([slow.spec]))
    assert session.outcome is SessionOutcome.NO_VERDICT
    assert session.text.startswith("1 of 1 case too noisy to judge")
