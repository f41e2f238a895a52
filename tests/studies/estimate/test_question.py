"""Sizes, rates and times as people write them."""

from __future__ import annotations

import pytest

from busbw.studies.estimate import question


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("553.36MB", 553.36e6),
        ("25MiB", 25 * 2**20),
        ("1GB", 1e9),
        ("2 GiB", 2 * 2**30),
        ("4KiB", 4096),
        ("4kB", 4000),
        ("17", 17),
        ("17B", 17),
        ("1.5e3B", 1500),
    ],
)
def test_sizes_are_decimal_unless_they_say_i(text: str, size: float) -> None:
    assert question.SIZE(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("125MB/s", 125e6),
        ("63GiB/s", 63 * 2**30),
        ("10Gbit/s", 1.25e9),
        ("10Gb/s", 1.25e9),
        ("1000Mbps", 125e6),
        ("108660Mbit/s", 13582.5e6),
    ],
)
def test_rates_are_in_bytes_and_a_small_b_is_a_bit(text: str, rate: float) -> None:
    assert question.RATE(text) == rate


@pytest.mark.parametrize(("text", "time_s"), [("0.55s", 0.55), ("550ms", 0.55), ("5us", 5e-6)])
def test_times_are_in_seconds(text: str, time_s: float) -> None:
    assert question.TIME(text) == pytest.approx(time_s)


@pytest.mark.parametrize(
    "text", ["", "MB", "5M", "5mb", "-5MB", "5MB ", "nan", "inf", "1e999", "5,3MB", "٣MB", "0B"]
)
def test_what_is_no_size_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"accepted"):
        question.SIZE(text)


@pytest.mark.parametrize("text", ["125", "125MB", "125/s", "0MB/s", "-1MB/s", "1e30GB/s"])
def test_what_is_no_rate_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"accepted"):
        question.RATE(text)
