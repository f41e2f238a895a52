"""The words: sizes and durations as people read them, and all of them in one place."""

from __future__ import annotations

import pytest

from busbw import model


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
    assert text == model.payload_text(payload_bytes)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (int(11.5 * 2**30), "11.5 GiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_bytes_are_written_in_the_unit_that_reads_best(count: int, text: str) -> None:
    assert text == model.bytes_text(count)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 us"),
        (1.5e-6, "1.5 us"),
        (812.4e-6, "812.4 us"),
        (1e-3, "1 ms"),
        (0.0123456, "12.35 ms"),
        (2.5, "2.5 s"),
    ],
)
def test_a_duration_has_four_digits_and_the_unit_that_reads_best(seconds: float, text: str) -> None:
    assert text == model.seconds_text(seconds)


def test_every_word_and_value_is_offered_by_the_package_itself() -> None:
    assert sorted(model.__all__, key=str.lower) == sorted(set(model.__all__), key=str.lower)
    assert all(hasattr(model, name) for name in model.__all__)
