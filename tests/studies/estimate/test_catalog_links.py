"""Links by name, as "placement的估计" and "tensorflow分布式" give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.commands.curve import Line
from busbw.studies.estimate.catalog import LINKS, link_of, of_chip
from busbw.studies.estimate.cost import Layout, Level
from busbw.studies.estimate.methods import METHODS

RATES = {link.name: link.bytes_per_s for link in LINKS}


@pytest.mark.parametrize(
    ("name", "links", "gb_per_s", "both"),
    [("nvlink-1", 4, 40, 160), ("nvlink-2", 6, 50, 300), ("nvlink-3", 12, 50, 600)],
)
def test_nvlink_is_half_of_what_is_sold_since_that_counts_both_directions(
    name: str, links: int, gb_per_s: float, both: float
) -> None:
    assert links * gb_per_s == both
    assert RATES[name] == both / 2 * 1e9


def test_other_links_are_as_stated() -> None:
    assert RATES["pcie-3"] == 16e9
    assert RATES["nvlink-2-cpu"] == 63 * 2**30
    assert RATES["upi"] == RATES["x-bus"] == 31 * 2**30
    assert RATES["10gbe"] == 10e9 / 8
    assert RATES["1gbe"] == 1000e6 / 8


def test_nvlink_to_a_processor_is_four_times_pcie_and_not_five_to_ten() -> None:
    assert RATES["nvlink-2-cpu"] / RATES["pcie-3"] == pytest.approx(4.2, abs=0.05)


def test_eight_bandwidths_were_measured_inside_and_eight_between() -> None:
    assert (RATES["measured-intra-4"], RATES["measured-inter-4"]) == (1082.125e6, 145.875e6)
    assert sum(name.startswith("measured-intra-") for name in RATES) == 8
    assert sum(name.startswith("measured-inter-") for name in RATES) == 8


def test_no_name_stands_twice_and_every_link_has_a_source() -> None:
    assert len(RATES) == len(LINKS)
    assert all(link.source and link.stated for link in LINKS)


def test_a_chip_is_a_link_by_its_name() -> None:
    link = of_chip("NVIDIA H200", 450e9, "a datasheet")
    assert (link.name, link.bytes_per_s, link.source) == ("NVIDIA H200", 450e9, "a datasheet")
    assert "450 GB/s" in link.stated


@given(st.integers(2, 512), st.floats(1.0, 1e12))
def test_a_ring_over_the_link_of_a_line_has_that_line(ranks: int, size: float) -> None:
    line = Line(latency_s=1e-4, bytes_per_s=1e9)
    ring = METHODS["ring"](size, Layout(ranks=ranks))
    assert ring.seconds({Level.INTRA: link_of(line, ranks)}) == pytest.approx(line.seconds(size))
