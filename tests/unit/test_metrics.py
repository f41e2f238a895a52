"""Sizes and bandwidths: every formula against figures that were worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw import metrics
from busbw.model.words import parse_payload, payload_text
from tests.helpers import build

KIB, MIB = 1024, 1024**2


@pytest.mark.parametrize(
    ("text", "payload_bytes"),
    [
        ("1", 1),
        ("1536", 1536),
        ("1K", KIB),
        ("1k", KIB),
        ("64M", 64 * MIB),
        ("1024M", 2**30),
        ("1G", 2**30),
        (" 4K ", 4 * KIB),
    ],
)
def test_the_units_of_a_size_are_powers_of_1024(text: str, payload_bytes: int) -> None:
    assert payload_bytes == parse_payload(text)


@given(st.integers(min_value=1, max_value=2**40))
def test_the_text_of_any_payload_is_parsed_to_the_number_of_bytes_of_the_payload(
    payload_bytes: int,
) -> None:
    assert payload_bytes == parse_payload(payload_text(payload_bytes))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1K:1024M", [KIB << power for power in range(21)]),
        ("3K:11K", [3 * KIB, 6 * KIB]),
        ("4K:4K", [4 * KIB]),
        ("1M,4K,1K:4K", [KIB, 2 * KIB, 4 * KIB, MIB]),
    ],
)
def test_the_option_payloads_gives_doubling_ranges_and_sizes_sorted_without_duplicates(
    text: str, sizes: list[int]
) -> None:
    assert metrics.parse_payloads(text) == tuple(sizes)


def test_busbw_is_algbw_times_the_bus_factor() -> None:
    case = build.case(payload_bytes=2**30, ranks=8)
    assert pytest.approx(1.75 * 1.073741824 / 2) == metrics.busbw_gb_per_s(case, 2.0)
