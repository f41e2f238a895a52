"""The tables of verdicts: a line for each case, and the reasons below it."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.verdict import BandwidthCeiling, Verdict
from busbw.model.words import Outcome
from busbw.report.conclusion import legend_lines, verdict_tables
from busbw.report.table import TextLine, render_text
from tests.helpers import build


def _lines(*verdicts: Verdict, verbose: bool = False) -> list[TextLine]:
    """Return the lines of all tables."""
    tables = verdict_tables(verdicts, verbose=verbose)
    return [line for table in tables for line in render_text(table)]


def _rows(*verdicts: Verdict) -> list[TextLine]:
    """Return the lines below the head of the only group."""
    return _lines(*verdicts)[4:]


def test_a_skipped_case_is_in_the_table_of_verdicts_below_the_name_of_its_framework() -> None:
    assert _lines(build.verdict(Outcome.SKIPPED, case=None, now=None))[1].text == "jax"


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
    assert _lines(verdict, verbose=True)[-1].text.strip() == "because"


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


LINKS = BandwidthCeiling(
    bytes_per_s=8e9, most_bytes_per_s=8e9, text="links: 2 of 4 in use", sure=True
)
MEMORY = BandwidthCeiling(
    bytes_per_s=7e9, most_bytes_per_s=8e9, text="memory of 9.00 GB/s", sure=True
)


def _verdict_with_ceiling(
    payload: int, ceiling: BandwidthCeiling | None, **changes: Any
) -> Verdict:
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
