"""The session: green only if everything that was asked for was measured, on the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from busbw.judge import Circumstances, judge_session
from busbw.model import Measurement, Outcome, SessionOutcome, SessionVerdict, Verdict
from tests import build


def _session(
    verdicts: Sequence[Verdict], measurements: Sequence[Measurement], **about: Any
) -> SessionVerdict:
    return judge_session(verdicts, measurements, Circumstances(**{"launches": 3, **about}))


def _fine(**about: Any) -> SessionVerdict:
    """A session in which every case was measured, in these circumstances."""
    return _session([build.verdict()], [build.measurement(1e-3, 1e-3, 1e-3)], **about)


def test_a_session_with_all_its_launches_is_fine_and_says_how_many() -> None:
    session = _fine()
    assert SessionOutcome.FINE is session.outcome
    assert session.text == "1 case measured in 3 launches each"
    assert not session.failed


def test_where_some_were_measured_again_the_span_is_said() -> None:
    measured = [build.measurement(*(1e-3,) * 3), build.measurement(*(1e-3,) * 9)]
    session = _session([build.verdict()] * 2, measured)
    assert session.text == "2 cases measured in 3 to 9 launches each"


def test_a_failed_launch_is_a_launch() -> None:
    measurement = build.measurement(1e-3, failures=(build.failure(), build.failure()))
    session = _session([build.verdict(Outcome.FAILED)], [measurement])
    assert SessionOutcome.FINE is session.outcome


def test_a_session_that_measured_nothing_is_not_green() -> None:
    session = _session([], [])
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text == "nothing was measured"
    assert session.failed


def test_a_session_that_measured_nothing_says_each_reason_once() -> None:
    skipped = [build.verdict(Outcome.SKIPPED, text=text) for text in ("b", "a", "b")]
    assert _session(skipped, []).text == "nothing was measured: a; b"


def test_cases_without_any_launch_are_not_a_measurement() -> None:
    session = _session([build.verdict()], [build.measurement()])
    assert SessionOutcome.NO_VERDICT is session.outcome


def test_a_missing_launch_is_no_verdict_and_the_first_case_is_named() -> None:
    short = build.measurement(1e-3, 1e-3, payload_bytes=1024)
    whole = build.measurement(1e-3, 1e-3, 1e-3)
    session = _session([build.verdict()] * 2, [whole, short])
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text == "1 case with fewer than 3 launches, first jax.all_reduce.psum.float32.1K"


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"asked_to_skip": "--x"}, "--x asks that benchmarks be skipped; a skipped session is"),
        ({"missing": ("a: no TPU",)}, "there are baselines that were not measured: a: no TPU"),
        ({"fallen_back": ("the clock fell back",)}, "the clock fell back"),
    ],
)
def test_what_was_not_measured_as_before_is_no_verdict_although_the_cases_are_fine(
    about: dict[str, Any], text: str
) -> None:
    session = _fine(**about)
    assert (session.outcome, session.failed) == (SessionOutcome.NO_VERDICT, True)
    assert session.text.startswith(text)


@pytest.mark.parametrize(("noisy", "fine"), [(1, True), (2, False)])
def test_more_than_a_tenth_too_noisy_to_judge_is_no_verdict(noisy: int, fine: bool) -> None:
    verdicts = [build.verdict(Outcome.NOISY)] * noisy + [build.verdict()] * (10 - noisy)
    session = _session(verdicts, [build.measurement(1e-3, 1e-3, 1e-3)] * 10)
    assert fine == (session.outcome is SessionOutcome.FINE)
    words = "2 of 10 cases too noisy to judge, first jax.all_reduce.psum.float32.4K"
    assert fine or session.text == words


@pytest.mark.parametrize(
    ("about", "outcome", "text"),
    [
        ({"shifted": "the machine is slower"}, SessionOutcome.ENV_SHIFT, "the machine is slower"),
        ({"curve": ("latency", "rate")}, SessionOutcome.CURVE_SHIFT, "latency; rate"),
    ],
)
def test_what_no_single_case_shows_fails_the_session(
    about: dict[str, Any], outcome: SessionOutcome, text: str
) -> None:
    session = _fine(**about)
    assert (session.outcome, session.failed, session.text) == (outcome, True, text)


def test_the_gravest_answer_comes_first() -> None:
    whole = {"curve": ("rate",), "shifted": "slower"}
    assert SessionOutcome.ENV_SHIFT is _fine(**whole).outcome
    assert SessionOutcome.NO_VERDICT is _fine(**whole, launches=4).outcome


def test_every_reason_against_a_session_is_said() -> None:
    text = _fine(launches=4, asked_to_skip="--x", missing=("b",), fallen_back=("c",)).text
    for words in ("fewer than 4 launches", "--x asks", "not measured: b", "c"):
        assert words in text


def test_a_suspicion_that_could_not_be_seen_again_is_no_verdict() -> None:
    about = Circumstances(launches=1, suspected=("jax-default-float32-4K",))
    session = judge_session([build.verdict()], [build.measurement(1e-3)], about)
    assert SessionOutcome.NO_VERDICT is session.outcome
    assert session.text == "suspected and not seen again in the time: jax-default-float32-4K"
