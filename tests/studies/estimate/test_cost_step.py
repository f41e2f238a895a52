"""Efficiency, step times, bandwidth wanted: the figures of "tensorflow分布式", and bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.studies.estimate.cost import (
    Layout,
    Level,
    Link,
    bandwidth_to_hide,
    bucketed_step_s,
    communication_for_s,
    efficiency,
    least_bandwidth,
    step_s,
)
from busbw.studies.estimate.methods import METHODS

D_BYTES, TS_S = 553.36e6, 0.55
seconds = st.floats(1e-6, 1e4)
shares = st.floats(0.0, 1.0)


def _ring_s(bytes_per_s: float, ranks: int = 4) -> float:
    link = {Level.INTRA: Link(name="some", bytes_per_s=bytes_per_s)}
    return METHODS["ring"](D_BYTES, Layout(ranks=ranks)).seconds(link)


def _wanted(wanted: float, ranks: int = 4) -> float:
    limit_s = TS_S / wanted
    found = least_bandwidth(lambda rate: step_s(_ring_s(rate, ranks), TS_S), limit_s)
    assert found is not None
    return found


def test_distributed_tensorflow_the_efficiency_over_a_gigabit_is_0_0765() -> None:
    assert efficiency(_ring_s(125e6), TS_S) == pytest.approx(0.0765, abs=5e-5)


def test_distributed_tensorflow_the_formula_as_printed_lacks_the_1() -> None:
    as_printed = 1 / (_ring_s(125e6) / TS_S)
    assert as_printed == pytest.approx(0.0828, abs=5e-5)
    assert efficiency(_ring_s(125e6), TS_S) == pytest.approx(as_printed / (1 + as_printed))


def test_distributed_tensorflow_a_step_takes_7_19_s_and_was_measured_at_7_628() -> None:
    predicted_s = step_s(_ring_s(125e6), TS_S)
    assert predicted_s == pytest.approx(7.19, abs=0.005)
    assert predicted_s == pytest.approx(TS_S / efficiency(_ring_s(125e6), TS_S))
    assert 7.628 / predicted_s == pytest.approx(1.06, abs=0.005)


def test_distributed_tensorflow_an_efficiency_of_0_9_needs_13582_mb_per_s() -> None:
    assert _wanted(0.9) / 1e6 == pytest.approx(13582, abs=0.5)
    assert _wanted(0.9) * 8 / 1e6 == pytest.approx(108660, abs=0.5)


def test_distributed_tensorflow_many_ranks_need_4_thirds_of_what_four_need() -> None:
    assert _wanted(0.9, 10**6) / _wanted(0.9) == pytest.approx(1.33333, abs=1e-5)


@given(st.floats(0.01, 0.99), st.integers(2, 1000))
def test_the_search_finds_formula_3(wanted: float, ranks: int) -> None:
    formula = 2 * D_BYTES * wanted * (ranks - 1) / (ranks * (1 - wanted) * TS_S)
    assert _wanted(wanted, ranks) == pytest.approx(formula)


@given(st.floats(0.001, 0.999), seconds)
def test_what_a_wanted_efficiency_leaves_for_communication_gives_that_efficiency(
    wanted: float, compute_s: float
) -> None:
    left_s = communication_for_s(wanted, compute_s)
    assert efficiency(left_s, compute_s) == pytest.approx(wanted)


def test_no_bandwidth_suffices_where_latency_alone_is_too_long() -> None:
    assert least_bandwidth(lambda rate: 1.0 + 0.2 + 1 / rate, 1.1) is None


@given(seconds, seconds, shares)
def test_overlap_never_hides_more_than_its_share_and_never_costs(
    communication_s: float, compute_s: float, overlap: float
) -> None:
    whole_s = step_s(communication_s, compute_s, overlap)
    assert max(compute_s, communication_s) <= whole_s * (1 + 1e-9)
    assert whole_s <= step_s(communication_s, compute_s) * (1 + 1e-9)
    assert whole_s >= (compute_s * (1 - overlap) + communication_s) * (1 - 1e-9)


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=40), seconds, shares)
def test_buckets_hide_no_more_than_gradients_that_flow(
    buckets: list[float], compute_s: float, overlap: float
) -> None:
    def seconds_of(size: float) -> float:
        return size / 1e9

    bucketed_s = bucketed_step_s(buckets, seconds_of, compute_s, overlap)
    assert bucketed_s >= step_s(sum(buckets) / 1e9, compute_s, overlap) * (1 - 1e-9)
    assert bucketed_s >= compute_s + seconds_of(buckets[-1]) - 1e-9
    assert bucketed_s <= (compute_s + sum(buckets) / 1e9) * (1 + 1e-9)


def test_many_small_buckets_come_near_gradients_that_flow() -> None:
    bucketed_s = bucketed_step_s([1.0] * 10_000, lambda size: size * 1e-4, 1.0, 0.5)
    assert bucketed_s == pytest.approx(step_s(1.0, 1.0, 0.5), rel=1e-3)


def test_one_bucket_hides_nothing() -> None:
    assert bucketed_step_s([8.0], lambda size: size / 4, 3.0, 1.0) == 5.0


def test_estimating_placement_the_perfect_bandwidth_moves_in_and_out_within_an_iteration() -> None:
    assert bandwidth_to_hide(2 * 492e6 * 4, 1.0) == 2 * 492e6 * 4
    assert bandwidth_to_hide(4 * 100e6 * 7 / 8, 0.5) == 4 * 100e6 / 0.5 * 7 / 8
