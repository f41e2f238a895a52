"""The tables of error rates: simulated, recorded, and the product next to the simulation's rule."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.error_rates import agreement, kept
from bench.error_rates.command import BUSY
from bench.error_rates.shares import interval, percent
from busbw.history.files import append
from busbw.model.words import Device
from tests.helpers import build
from tests.helpers.history_lines import KEY, line

RATES = [
    "| unchanged, steps over the sizes: red | mean 0.3 (0.09 to 1.2; 600); "
    "1st 5 (0.9 to 24; 20); 2nd 0 (0 to 16; 20); worst 5 (0.9 to 24; 20) | <= 1, 1st 3 |",
    "| +5 % in one after 1, 0.5/0.5: named | 1. 85 (71 to 92.9; 40) |  |",
]
# Red sessions of unchanged code; then sessions that flag a case at 1.5, 2 and 3 times its time.
RECORDED = [(0, 14), (0, 14), (10, 14), (14, 14)]


def test_the_batched_rule_and_the_product_agree_on_three_cases() -> None:
    (last,) = agreement.rows(2, 12, 7, ["3 cases"])
    assert last == "24 sessions judged by both, 0 differ"


@pytest.mark.exhaustive
def test_the_batched_rule_and_the_product_agree_on_every_kind_of_noise_and_loss() -> None:
    rows = list(agreement.rows(1, 20, 11))
    assert rows == [f"{20 * len(agreement.KINDS)} sessions judged by both, 0 differ"]


@pytest.mark.exhaustive
def test_simulated_rates_do_not_change(capsys: pytest.CaptureFixture[str]) -> None:
    only = ("--only=steps over", "--only=after 1, 0.5")
    main(["error_rates", "rates", "--devices=20", "--seed=2026", *only])
    assert capsys.readouterr().out.splitlines()[2:] == RATES


def test_verdicts_of_recorded_sessions_do_not_change() -> None:
    sessions = kept.read(BUSY)
    assert len(sessions) == 15
    answers = kept._answers(
        [(sessions[0], later) for later in sessions[1:]], later=True, is_few=True
    )
    assert [(hits, among) for _, hits, among in answers] == RECORDED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["error_rates"], "required: table"),
        (["error_rates", "replay"], "invalid choice: 'replay'"),
        (["error_rates", "rates", "--devices=0"], "expected a positive number, got 0"),
    ],
)
def test_a_wrong_option_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("hits", "among", "exact", "wilson"),
    [
        # The rule of three, and the bounds of Brown, Cai and DasGupta (2001) for 1 of 40.
        (0, 40, (0.0, 1 - 0.025 ** (1 / 40)), (0.0, 0.0876)),
        (40, 40, (0.025 ** (1 / 40), 1.0), (0.9124, 1.0)),
        (13, 40, (0.1857, 0.4913), (0.2008, 0.4798)),
    ],
)
def test_intervals_are_the_published_ones(
    hits: int, among: int, exact: tuple[float, float], wilson: tuple[float, float]
) -> None:
    assert interval(hits, among, "exact") == pytest.approx(exact, abs=1e-4)
    assert interval(hits, among, "wilson") == pytest.approx(wilson, abs=1e-4)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0005, "0.05 %"),
        (0.02, "2 %"),
        (0.088, "8.8 %"),
        (0.123, "12 %"),
        (0.996, "99.6 %"),
        (1, "100 %"),
    ],
)
def test_a_share_has_decimals_near_the_ends_only(share: float, text: str) -> None:
    assert percent(share) == text


def _append(folder: Path, number: int, moment: str, launches: int) -> None:
    """Append a session of ten cases on a CPU."""
    generator = random.Random(number)
    lines = [
        replace(
            line(
                session=f"{number:016x}",
                moment=moment,
                case=build.case(payload_bytes=1024 << power),
            ),
            device=Device.CPU,
            times_us=tuple(
                100.0 * 2**power * math.exp(generator.gauss(0, 0.05)) for _ in range(launches)
            ),
        )
        for power in range(10)
    ]
    append(folder, KEY, lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a history of four sessions of eight launches, and one of three launches."""
    for day in range(5):
        _append(tmp_path, day, f"2026-03-{1 + day:02d}T03:00:00Z", 8 if day < 4 else 3)
    return tmp_path


@pytest.mark.exhaustive
def test_launches_minutes_later_are_kept_with_the_session_before(folder: Path) -> None:
    assert [session.began.day for session in kept.read(folder)] == [1, 2, 3, 4]
    _append(folder, 98, "2026-03-07T03:00:00Z", 6)
    assert len(kept.read(folder)) == 4
    _append(folder, 99, "2026-03-07T03:02:00Z", 3)
    *_, last = kept.read(folder)
    assert [len(launches) for launches in last.times_s.values()] == [6] * 10
    assert [len(launches) for launches in last.later_s.values()] == [3] * 10


@pytest.mark.exhaustive
def test_launches_a_minute_later_confirm_what_the_first_suspected(folder: Path) -> None:
    accepted, session, *_ = kept.read(folder)
    slow = list(session.times_s)[4]
    times_s = {case: tuple(launches[:3]) for case, launches in session.times_s.items()}
    gone = replace(session, later_s={**times_s, slow: tuple(t / 3 for t in times_s[slow])})
    assert not kept.judged(accepted, session, {}).is_red
    assert kept.judged(accepted, gone, {slow: 3.0}).red == {slow}
    assert not kept.judged(accepted, gone, {slow: 3.0}, later=True).is_red


@pytest.mark.exhaustive
def test_the_table_of_recorded_sessions_counts_pairs_and_cases(folder: Path) -> None:
    rows = list(kept.rows(kept.read(folder)))
    assert "0 of 6" in rows[2]
    assert all(" of 60 |" in row for row in rows[3:6])
    assert "6 of 6" in rows[6] and "| 10 | later |" in rows[7]
    assert "| 3 | at once |" in rows[12] and "0 of 120" in rows[12]
