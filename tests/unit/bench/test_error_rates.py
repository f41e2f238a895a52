"""The tables of error rates: simulated, recorded, and the product next to the simulation's rule."""

from __future__ import annotations

from typing import Any

import pytest

from bench.__main__ import main
from bench.error_rates import agreement, kept
from bench.error_rates.command import BUSY
from bench.error_rates.shares import interval

RATES = [
    "| unchanged, steps over the sizes: red | mean 0.3 (0.09 to 1.2; 600); "
    "1st 5 (0.9 to 24; 20); 2nd 0 (0 to 16; 20); worst 5 (0.9 to 24; 20) | <= 1, 1st 3 |",
    "| +5 % in one after 1, 0.5/0.5: named | 1. 85 (71 to 92.9; 40) |  |",
]
# Red sessions of unchanged code; then sessions that flag a case at 1.5, 2 and 3 times its time.
RECORDED = [(0, 14), (0, 14), (10, 14), (14, 14)]


@pytest.mark.parametrize(
    ("values", "sessions"),
    [
        ((2, 12, 7, ["3 cases"]), 24),
        pytest.param((1, 20, 11), 20 * len(agreement.KINDS), marks=pytest.mark.exhaustive),
    ],
    ids=["three cases", "all"],
)
def test_the_vectorized_rule_of_the_benchmark_and_the_judge_agree_on_every_noise_and_loss(
    values: Any, sessions: int
) -> None:
    assert list(agreement.rows(*values)) == [f"{sessions} sessions judged by both, 0 differ"]


@pytest.mark.exhaustive
def test_the_error_rates_that_the_benchmark_simulates_with_a_fixed_seed_are_the_stored_rates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = ("--only=steps over", "--only=after 1, 0.5")
    main(["error_rates", "rates", "--devices=20", "--seed=2026", *only])
    assert capsys.readouterr().out.splitlines()[2:] == RATES


def test_the_number_of_recorded_sessions_with_each_verdict_equals_the_recorded_number() -> None:
    sessions = kept.read(BUSY)
    assert len(sessions) == 15
    answers = kept._count_answers([(sessions[0], later) for later in sessions[1:]], is_few=True)
    assert [(hits, among) for _, hits, among in answers] == RECORDED


@pytest.mark.parametrize(
    ("hits", "among", "exact", "wilson"),
    [
        # The rule of three, and the bounds of Brown, Cai and DasGupta (2001) for 1 of 40.
        (0, 40, (0.0, 1 - 0.025 ** (1 / 40)), (0.0, 0.0876)),
        (40, 40, (0.025 ** (1 / 40), 1.0), (0.9124, 1.0)),
        (13, 40, (0.1857, 0.4913), (0.2008, 0.4798)),
    ],
)
def test_the_confidence_intervals_of_error_rates_equal_published_intervals(
    hits: int, among: int, exact: tuple[float, float], wilson: tuple[float, float]
) -> None:
    assert interval(hits, among, "exact") == pytest.approx(exact, abs=1e-4)
    assert interval(hits, among, "wilson") == pytest.approx(wilson, abs=1e-4)
