"""Efficiency, step times, bandwidth wanted: the figures of "tensorflow分布式", and bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.words import MIB
from busbw.studies.estimate.methods import METHODS, Layout, Level, Link
from busbw.studies.estimate.sums import TrainingStep, buckets_of, least_factor

D_BYTES, TS_S = 553.36e6, 0.55
STEP = TrainingStep(payload_bytes=D_BYTES, compute_s=TS_S)
seconds = st.floats(1e-6, 1e4)
shares = st.floats(0.0, 1.0)


def _ring_s(bytes_per_s: float, ranks: int = 4) -> float:
    link = {Level.INTRA: Link(name="some", bytes_per_s=bytes_per_s)}
    return METHODS["ring"](D_BYTES, Layout(ranks=ranks)).seconds(link)


def _wanted(wanted: float, ranks: int = 4) -> float:
    found = least_factor(lambda rate: STEP.step_s(lambda size: _ring_s(rate, ranks)), TS_S / wanted)
    assert found is not None
    return found


def test_distributed_tensorflow_many_ranks_need_4_thirds_of_what_four_need() -> None:
    assert _wanted(0.9, 10**6) / _wanted(0.9) == pytest.approx(1.33333, abs=1e-5)


@given(st.floats(0.01, 0.99), st.integers(2, 1000))
def test_the_search_finds_formula_3(wanted: float, ranks: int) -> None:
    formula = 2 * D_BYTES * wanted * (ranks - 1) / (ranks * (1 - wanted) * TS_S)
    assert _wanted(wanted, ranks) == pytest.approx(formula)


def test_no_bandwidth_suffices_where_latency_alone_is_too_long() -> None:
    assert least_factor(lambda factor: 1.0 + 0.2 + 1 / factor, 1.1) is None


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=40), seconds, shares)
def test_overlap_and_buckets_hide_no_more_than_can_be(
    buckets: list[float], compute_s: float, overlap: float
) -> None:
    def step_s(buckets: tuple[float, ...], overlap: float) -> float:
        whole = math.fsum(given_buckets)
        step = TrainingStep(
            payload_bytes=whole, buckets=buckets, compute_s=compute_s, overlap=overlap
        )
        return step.step_s(lambda size: size / 1e9)

    given_buckets = tuple(buckets)
    communication_s = sum(buckets) / 1e9
    flowing_s, bucketed_s = step_s((), overlap), step_s(given_buckets, overlap)
    assert max(compute_s, communication_s) <= flowing_s * (1 + 1e-9)
    assert flowing_s >= (compute_s * (1 - overlap) + communication_s) * (1 - 1e-9)
    assert flowing_s * (1 - 1e-9) <= bucketed_s <= (compute_s + communication_s) * (1 + 1e-9)
    assert bucketed_s >= (compute_s + buckets[-1] / 1e9) * (1 - 1e-9)


def test_many_small_buckets_come_near_gradients_that_flow_and_one_hides_nothing() -> None:
    many = TrainingStep(payload_bytes=1e4, buckets=(1.0,) * 10_000, compute_s=1.0, overlap=0.5)
    assert many.step_s(lambda size: size * 1e-4) == pytest.approx(1.5, rel=1e-3)
    one = TrainingStep(payload_bytes=8.0, buckets=(8.0,), compute_s=3.0, overlap=1.0)
    assert one.step_s(lambda size: size / 4) == 5.0


def test_buckets_fill_from_the_last_tensor_to_the_first_and_close_when_they_hold_enough() -> None:
    assert buckets_of([1.0, 5.0, 30.0, 10.0, 20.0], 25.0) == (30.0, 30.0, 6.0)
    assert len(buckets_of([138_357_544 * 4], 25 * MIB)) == 22


@given(st.lists(st.floats(1.0, 1e9), min_size=1), st.floats(1e5, 1e9))
def test_nothing_is_lost_and_only_the_last_bucket_may_hold_less(
    gradients: list[float], bucket_bytes: float
) -> None:
    buckets = buckets_of(gradients, bucket_bytes)
    assert math.fsum(buckets) == pytest.approx(math.fsum(gradients))
    assert all(bucket >= bucket_bytes for bucket in buckets[:-1])
    assert 0 < buckets[-1] < bucket_bytes + max(gradients)
