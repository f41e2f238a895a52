"""Models, links and sizes as their sources and docs/studies.md have them; steps, and bounds.

Efficiencies and the bandwidth wanted are figures of "tensorflow分布式".
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.extensions.estimate.answer import least_factor
from busbw.extensions.estimate.methods import METHODS, Layout, Level, Link, TrainingStep, buckets_of
from busbw.extensions.estimate.quantities import RATE, SIZE, TIME, Quantity
from busbw.extensions.estimate.question import (
    LINKS,
    MODELS,
    known_links,
    memory_by_optimizer,
)
from busbw.model.words import MIB

PAGE = Path(__file__).parents[4] / "docs" / "studies.md"
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
}


def test_vgg_16_counted_by_its_layers_is_the_figure() -> None:
    channels = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 256)]
    channels += [(256, 512), *[(512, 512)] * 5]
    dense = [(512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)]
    convolutions = sum(9 * inputs * outputs + outputs for inputs, outputs in channels)
    layers = sum(inputs * outputs + outputs for inputs, outputs in dense)
    assert convolutions + layers == MODELS["vgg-16"]


@pytest.mark.parametrize(
    ("name", "megabytes"),
    [
        *(("resnet-50", 102.3), ("resnext-110", 6.92), ("inception-bn", 42.1), ("seq2seq", 36.5)),
        *(("cnn-text-classification", 24.0), ("dssm", 6.0), ("wlm", 19.2)),
    ],
)
def test_estimating_placement_s_other_models_have_the_bytes_of_their_source(
    name: str, megabytes: float
) -> None:
    assert MODELS[name] * 4 / 1e6 == pytest.approx(megabytes, abs=0.05)


def _decoder(width: int, layers: int, words: int, inner: int, keys: int, experts: int = 1) -> int:
    """A decoder with grouped queries, gated layers, two norms a layer and its own output layer."""
    attention = 2 * width * width + 2 * width * keys
    router = width * experts if experts > 1 else 0
    layer = attention + experts * 3 * width * inner + router + 2 * width
    return 2 * words * width + layers * layer + width


def test_models_of_today_counted_by_their_layers_are_the_figures() -> None:
    assert _decoder(4096, 32, 128_256, 14_336, 1024) == MODELS["llama-3-8b"]
    assert _decoder(8192, 80, 128_256, 28_672, 1024) == MODELS["llama-3-70b"]
    assert _decoder(4096, 32, 32_000, 14_336, 1024, experts=8) == MODELS["mixtral-8x7b"]
    width, layers = 1600, 48
    layer = 12 * width * width + 13 * width
    assert (50_257 + 1024) * width + layers * layer + 2 * width == MODELS["gpt-2"]


@pytest.mark.parametrize(
    ("name", "links", "gb_per_s", "both"),
    [("nvlink-1", 4, 40, 160), ("nvlink-2", 6, 50, 300), ("nvlink-3", 12, 50, 600)],
)
def test_nvlink_is_half_of_what_is_sold_since_that_counts_both_directions(
    name: str, links: int, gb_per_s: float, both: float
) -> None:
    assert links * gb_per_s == both
    assert LINKS[name] == both / 2 * 1e9


def test_other_links_are_as_stated() -> None:
    assert (LINKS["pcie-3"], LINKS["10gbe"], LINKS["1gbe"]) == (16e9, 10e9 / 8, 1000e6 / 8)
    assert LINKS["nvlink-2-cpu"] == 63 * 2**30
    assert LINKS["upi"] == LINKS["x-bus"] == 31 * 2**30
    # And not five to ten times.
    assert LINKS["nvlink-2-cpu"] / LINKS["pcie-3"] == pytest.approx(4.2, abs=0.05)
    assert known_links()["nvidia h200"] == ("NVIDIA H200", 450e9)


def test_adam_keeps_16_bytes_of_a_parameter_and_other_optimizers_less() -> None:
    assert memory_by_optimizer("float32") == {"sgd": 8, "momentum": 12, "adam": 4 + 4 + 8}
    assert memory_by_optimizer("bfloat16") == {"sgd": 8, "momentum": 12, "adam": 2 + 2 + 4 + 8}
    assert memory_by_optimizer("float64") == {}


def test_the_page_lists_every_model_and_link_with_its_figure() -> None:
    for name, parameters in MODELS.items():
        assert ROWS[name][0] == f"{parameters:,}"
    for name, rate in LINKS.items():
        if not name.startswith("measured"):
            assert float(ROWS[name][0]) == pytest.approx(rate / 1e9, rel=1e-4)
    for where in ("intra", "inter"):
        listed = ROWS[f"measured-{where}-1 to -8"][1].removesuffix(" MB/s").split(", ")
        there = [rate for name, rate in LINKS.items() if name.startswith(f"measured-{where}")]
        assert [float(rate) * 1e6 for rate in listed] == there


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (SIZE, "553.36MB", 553.36e6),
        (SIZE, "25MiB", 25 * 2**20),
        (SIZE, "1GB", 1e9),
        (SIZE, "2 GiB", 2 * 2**30),
        (SIZE, "4KiB", 4096),
        (SIZE, "4kB", 4000),
        (SIZE, "17", 17),
        (SIZE, "17B", 17),
        (SIZE, "1.5e3B", 1500),
        (RATE, "125MB/s", 125e6),
        (RATE, "63GiB/s", 63 * 2**30),
        (RATE, "10Gbit/s", 1.25e9),
        (RATE, "10Gb/s", 1.25e9),
        (RATE, "1000Mbps", 125e6),
        (RATE, "108660Mbit/s", 13582.5e6),
        (TIME, "0.55s", 0.55),
        (TIME, "550ms", 0.55),
        (TIME, "5us", 5e-6),
    ],
)
def test_units_are_decimal_unless_they_say_i_and_a_small_b_is_a_bit(
    parse: Quantity, text: str, value: float
) -> None:
    assert parse(text) == pytest.approx(value, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (
            SIZE,
            ["", "MB", "5M", "5mb", "-5MB", "5MB ", "nan", "inf", "1e999", "5,3MB", "٣MB", "0B"],
        ),
        (RATE, ["125", "125MB", "125/s", "0MB/s", "-1MB/s", "1e30GB/s"]),
    ],
)
def test_what_is_no_quantity_is_an_error_that_names_it(parse: Quantity, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(text))}; accepted is "):
            parse(text)


D_BYTES, TS_S = 553.36e6, 0.55
STEP = TrainingStep(payload_bytes=D_BYTES, compute_s=TS_S)
seconds = st.floats(1e-6, 1e4)
shares = st.floats(0.0, 1.0)


@given(st.floats(0.01, 0.99), st.integers(2, 1000))
def test_the_search_finds_formula_3(wanted: float, ranks: int) -> None:
    ring = METHODS["ring"](D_BYTES, Layout(ranks=ranks))

    def step_s(bytes_per_s: float) -> float:
        link = Link(name="some", bytes_per_s=bytes_per_s)
        return STEP.step_s(lambda size: ring.seconds({Level.INTRA: link}))

    formula = 2 * D_BYTES * wanted * (ranks - 1) / (ranks * (1 - wanted) * TS_S)
    assert least_factor(step_s, TS_S / wanted) == pytest.approx(formula)


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


def test_buckets_fill_from_the_last_tensor_to_the_first_and_close_when_they_hold_enough() -> None:
    assert buckets_of([1.0, 5.0, 30.0, 10.0, 20.0], 25.0) == (30.0, 30.0, 6.0)
    assert len(buckets_of([138_357_544 * 4], 25 * MIB)) == 22
