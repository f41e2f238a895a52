"""Gradients in buckets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model import MIB
from busbw.studies.estimate.cost import buckets_of, even_buckets


def test_buckets_fill_from_the_last_tensor_to_the_first_and_close_when_they_hold_enough() -> None:
    assert buckets_of([1.0, 5.0, 30.0, 10.0, 20.0], 25.0) == (30.0, 30.0, 6.0)


@given(st.lists(st.floats(1.0, 1e9), min_size=1), st.floats(1.0, 1e9))
def test_nothing_is_lost_and_only_the_last_bucket_may_hold_less(
    gradients: list[float], bucket_bytes: float
) -> None:
    buckets = buckets_of(gradients, bucket_bytes)
    assert math.fsum(buckets) == pytest.approx(math.fsum(gradients))
    assert all(bucket >= bucket_bytes for bucket in buckets[:-1])
    assert 0 < buckets[-1] < bucket_bytes + max(gradients)


@given(st.floats(1.0, 1e9), st.floats(1e5, 1e9))
def test_even_buckets_hold_it_all(payload_bytes: float, bucket_bytes: float) -> None:
    buckets = even_buckets(payload_bytes, bucket_bytes)
    assert math.fsum(buckets) == pytest.approx(payload_bytes)
    assert all(0 < bucket <= bucket_bytes for bucket in buckets)


def test_vgg_16_makes_22_buckets_of_the_usual_size() -> None:
    assert len(even_buckets(138_357_544 * 4, 25 * MIB)) == 22
