"""Sizes, durations, rates and counts as text, and refusals with the expected words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from busbw.model.words import (
    bandwidth_text,
    bytes_text,
    payload_text,
    plural,
    seconds_text,
    wrong_choice_text,
)


@pytest.mark.parametrize(
    ("payload_bytes", "text"),
    [
        (0, "0"),
        (4, "4"),
        (1000, "1000"),
        (1024, "1K"),
        (1536, "1536"),
        (64 * 1024, "64K"),
        (1024**2, "1M"),
        (1024**2 + 1024, "1025K"),
        (2**30, "1024M"),
    ],
)
def test_a_payload_is_written_in_the_largest_unit_that_divides_it(
    payload_bytes: int, text: str
) -> None:
    assert text == payload_text(payload_bytes)


@pytest.mark.parametrize(
    ("write", "number", "text"),
    [
        (bytes_text, 0, "0 bytes"),
        (bytes_text, 1023, "1023 bytes"),
        (bytes_text, 1024, "1.0 KiB"),
        (bytes_text, 1536 * 1024, "1.5 MiB"),
        (bytes_text, int(11.5 * 2**30), "11.5 GiB"),
        (bytes_text, -2048, "-2.0 KiB"),
        (bandwidth_text, 3.4e9, "3.40 GB/s"),
        (bandwidth_text, 34e9, "34.0 GB/s"),
        (bandwidth_text, 340e9, "340 GB/s"),
        (bandwidth_text, 3400e9, "3400 GB/s"),
        (bandwidth_text, 0.034e9, "0.0340 GB/s"),
        (bandwidth_text, 0.0, "0 GB/s"),
    ],
)
def test_bytes_are_written_in_the_largest_binary_unit_and_a_rate_with_three_digits_in_gb_per_s(
    write: Callable[[Any], str], number: float, text: str
) -> None:
    assert text == write(number)


@pytest.mark.parametrize(
    ("seconds", "digits", "text"),
    [
        (0.0, {}, "0 us"),
        (1.5e-6, {}, "1.5 us"),
        (812.4e-6, {}, "812.4 us"),
        (1e-3, {}, "1 ms"),
        (0.0123456, {}, "12.35 ms"),
        (2.5, {}, "2.5 s"),
        # With fewer digits there is no exponent either.
        (999.6e-6, {"digits": 3}, "1000 us"),
        (12.345e-3, {"digits": 2}, "12 ms"),
        (1234.0, {"digits": 3}, "1230 s"),
        (5e-6, {"digits": 1}, "5 us"),
    ],
)
def test_a_duration_is_written_with_four_digits_or_fewer_in_microseconds_milliseconds_or_seconds(
    seconds: float, digits: dict[str, int], text: str
) -> None:
    assert text == seconds_text(seconds, **digits)


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "launch", "1 launch"),
        (3, "launch", "3 launches"),
        (0, "case", "0 cases"),
        (2, "pass", "2 passes"),
        (2, "box", "2 boxes"),
        (2, "launch", "2 launches"),
        (2, "batch", "2 batches"),
        (2, "epoch", "2 epochs"),
        (21, "day", "21 days"),
    ],
)
def test_a_count_is_written_with_the_singular_or_the_plural_of_its_noun(
    count: int, noun: str, text: str
) -> None:
    assert text == plural(count, noun)


MANY = tuple(f"strategy_{number}" for number in range(20))


def test_a_refusal_lists_the_first_expected_words_and_counts_the_others() -> None:
    message = wrong_choice_text("x", MANY)
    assert message.startswith("expected one of strategy_0, strategy_1, ")
    assert message.endswith("strategy_7, and 12 words more, got 'x'")
