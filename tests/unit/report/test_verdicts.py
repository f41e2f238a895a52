"""The tables of verdicts: a line for each case, and the reasons below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.model.verdict import Ceiling, Verdict
from busbw.model.words import Outcome
from busbw.report.conclusion import legend_lines
from busbw.report.table import TextLine
from tests.helpers import build
from tests.helpers.report_text import verdict_lines

RED = {"red": True, "bold": True}


def _rows(*verdicts: Verdict) -> list[TextLine]:
    """Return the lines below the head of the only group."""
    return verdict_lines(verdicts)[4:]


def test_the_table_of_verdicts_has_one_heading_for_each_group_of_cases() -> None:
    small, large = build.verdict(), build.verdict(spec=build.spec(payload_bytes=2**20))
    other = build.verdict(case=build.case(framework="tensorflow", strategy="ring"))
    headings = [
        line.text for line in verdict_lines([small, large, other]) if line.markup == {"bold": True}
    ]
    assert headings == [
        "jax all_reduce (psum), 4 ranks",
        "tensorflow all_reduce (ring), 4 ranks",
    ]


def test_a_skipped_case_is_in_the_table_of_verdicts_below_the_name_of_its_framework() -> None:
    lines = verdict_lines([build.verdict(Outcome.SKIPPED, case=None, now=None)])
    assert lines[1].text == "jax"


def test_a_line_of_the_table_of_verdicts_has_a_cell_for_each_column() -> None:
    (row,) = _rows(build.verdict())
    assert row.text.split() == ["4K", "1000.0", "4.000", "6.000", "-10+10", "PASS"]


def test_the_verbose_table_of_verdicts_has_the_best_launch_and_the_overhead_of_a_call() -> None:
    verdict = build.verdict(now=build.summary(best_s=0.9e-3, dispatch_s=5e-5))
    head, _, row = (line.text for line in verdict_lines([verdict], verbose=True)[2:])
    assert head.split() == [
        *("size", "time", "best", "algbw", "busbw", "range"),
        *("per", "call", "outcome"),
    ]
    assert row.split()[1:3] == ["1000.0", "900.0"]
    assert row.split()[-2:] == ["50.0", "PASS"]


@pytest.mark.parametrize(
    ("limit", "text"), [(1.0312, "1.031"), (1.0049, "1.005"), (1.156, "1.16"), (2.5, "2.50")]
)
def test_the_table_of_verdicts_has_the_limit_to_the_right_of_the_ratio(
    limit: float, text: str
) -> None:
    head, _, row = (
        line.text for line in verdict_lines([build.verdict(ratio=1.0, limit=limit)])[2:]
    )
    assert head.split()[-3:] == ["ratio", "limit", "outcome"]
    assert row.split()[-3:] == ["1.00", text, "PASS"]
    assert head.index("limit") + len("limit") == row.index(text) + len(text)


def test_a_table_of_verdicts_without_limits_has_no_column_of_limits() -> None:
    without, with_one = build.verdict(), build.verdict(limit=1.03)
    assert "limit" not in verdict_lines([without])[2].text
    lines = verdict_lines([with_one, without])
    assert "limit" in lines[2].text
    assert lines[4].text.split()[-2:] == ["1.030", "PASS"]
    assert lines[5].text.split()[-2:] == ["-10+10", "PASS"]


@pytest.mark.parametrize("outcome", Outcome)
def test_the_table_of_verdicts_gives_the_reason_of_each_outcome_except_pass_and_no_baseline(
    outcome: Outcome,
) -> None:
    row, *reasons = (line.text.strip() for line in _rows(build.verdict(outcome, text="because")))
    assert row.endswith(outcome.value)
    assert reasons == ["because"] * (outcome not in (Outcome.PASS, Outcome.NO_BASELINE))


def test_only_the_verbose_table_of_verdicts_gives_the_reason_of_a_failed_case() -> None:
    verdict = build.verdict(Outcome.REGRESSED, failed=True, text="because")
    assert len(_rows(verdict)) == 1
    assert verdict_lines([verdict], verbose=True)[-1].text.strip() == "because"


@pytest.mark.parametrize("outcome", Outcome)
def test_a_failed_case_with_any_outcome_is_red_in_the_table_of_verdicts(
    outcome: Outcome,
) -> None:
    assert _rows(build.verdict(outcome, failed=True))[0].markup == RED


@pytest.mark.parametrize(
    ("outcome", "markup"),
    [
        (Outcome.PASS, {"green": True}),
        (Outcome.NOISY, {"yellow": True}),
        (Outcome.NO_BASELINE, {}),
    ],
)
def test_a_case_has_the_colour_of_its_outcome_in_the_table_of_verdicts(
    outcome: Outcome, markup: dict[str, bool]
) -> None:
    assert _rows(build.verdict(outcome))[0].markup == markup


@pytest.mark.parametrize(
    ("verdict", "words", "meaning"),
    [
        (build.verdict(provisional=True), "PASS *", "* provisional: "),
        (build.verdict(Outcome.OUT_OF_MEMORY, expected=True), "OUT_OF_MEMORY +", "+ expected: "),
    ],
)
def test_a_provisional_or_expected_outcome_has_a_mark_that_the_legend_explains(
    verdict: Verdict, words: str, meaning: str
) -> None:
    assert _rows(verdict)[0].text.endswith(words)
    assert legend_lines([verdict, build.verdict()])[-1].startswith(meaning)


LINKS = Ceiling(bytes_per_s=8e9, most_bytes_per_s=8e9, text="links: 2 of 4 in use", sure=True)
MEMORY = Ceiling(bytes_per_s=7e9, most_bytes_per_s=8e9, text="memory of 9.00 GB/s", sure=True)


def _verdict_with_ceiling(payload: int, ceiling: Ceiling | None, **changes: Any) -> Verdict:
    return build.verdict(spec=build.spec(payload_bytes=payload), ceiling=ceiling, **changes)


@pytest.mark.parametrize(
    ("busbw_gb_per_s", "words"),
    [(8.0, "100"), (8.4, "105"), (0.8, "10"), (0.24, "3"), (0.0004, "0.005")],
)
def test_the_table_of_verdicts_keeps_a_digit_of_a_small_percentage_of_the_ceiling(
    busbw_gb_per_s: float, words: str
) -> None:
    summary = build.summary(busbw_gb_per_s=busbw_gb_per_s)
    row, _ = _rows(_verdict_with_ceiling(4096, LINKS, now=summary))
    assert row.text.split()[4] == words


def test_a_case_without_a_time_has_no_percentage_of_the_ceiling_in_the_table_of_verdicts() -> None:
    failed = _verdict_with_ceiling(2**20, LINKS, now=None, outcome=Outcome.FAILED, text="above")
    _, row, reason, last = (line.text for line in _rows(_verdict_with_ceiling(4096, LINKS), failed))
    assert row.split() == ["1M", "FAILED"]
    assert (reason.strip(), last) == ("above", "ceiling 8.00 GB/s: links: 2 of 4 in use")


def test_a_table_of_verdicts_with_several_ceilings_names_the_payloads_of_each_ceiling() -> None:
    verdicts = [
        _verdict_with_ceiling(4096, LINKS),
        _verdict_with_ceiling(2**20, LINKS),
        _verdict_with_ceiling(2**28, MEMORY),
    ]
    assert [line.text for line in _rows(*verdicts)[3:]] == [
        "ceiling 8.00 GB/s for 4K, 1M: links: 2 of 4 in use",
        "ceiling 7.00 GB/s for 256M: memory of 9.00 GB/s",
    ]


def test_the_table_of_verdicts_says_that_the_link_rates_of_a_chip_are_uncertain() -> None:
    unsure = replace(LINKS, sure=False)
    assert _rows(_verdict_with_ceiling(4096, unsure))[-1].text.endswith(
        "in use; the chip's figures are not sure"
    )
