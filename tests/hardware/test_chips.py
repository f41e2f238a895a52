"""The table of chips: units, names as JAX has them, and no figure where none is trusted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from busbw.hardware.chips import CHIPS, Chip, Confidence, chip_of

PAGE = Path(__file__).parents[2] / "docs" / "measuring.md"


def test_every_chip_says_where_its_figures_come_from() -> None:
    assert all(chip.source for chip in CHIPS)
    assert len({chip.device_kind for chip in CHIPS}) == len(CHIPS)


def test_a_figure_is_of_one_direction_and_in_bytes_per_second() -> None:
    h100 = chip_of("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    assert (h100.link_bytes_per_s, h100.memory_bytes_per_s) == (450e9, 3350e9)


@pytest.mark.parametrize("kind", ["TPU v2", "TPU v3"])
def test_a_chip_without_a_trusted_figure_has_none(kind: str) -> None:
    chip = chip_of(kind)
    assert chip is not None
    assert chip.link_bytes_per_s is None
    assert chip.confidence is Confidence.LOW
    assert chip.doubt


def test_a_gpu_is_known_by_the_beginning_of_its_name() -> None:
    chip = chip_of("NVIDIA A100-SXM4-80GB")
    assert chip is not None
    assert chip.device_kind == "NVIDIA A100-SXM4"


@pytest.mark.parametrize(
    "kind", ["TPU v4 lite", "NVIDIA H100 PCIe", "NVIDIA B2000", "AMD EPYC", "Fake CPU", ""]
)
def test_a_name_that_only_looks_alike_is_another_chip(kind: str) -> None:
    assert chip_of(kind) is None


def test_v5p_and_v5e_are_told_apart() -> None:
    assert [chip_of(kind).vendor_name for kind in ("TPU v5", "TPU v5 lite")] == [  # type: ignore[union-attr]
        "Cloud TPU v5p",
        "Cloud TPU v5e",
    ]


def test_the_page_has_every_chip_with_its_figures_and_no_others() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| device kind |"))
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[begin + 2 :]))
    assert rows == [_row(chip) for chip in CHIPS]


def _row(chip: Chip) -> str:
    """A chip as docs/measuring.md has it; rates in GB/s."""
    joined = chip.fabric.value + (", adds up" if chip.reduces_in_switch else "")
    sends = "none" if chip.link_bytes_per_s is None else f"{chip.link_bytes_per_s / 1e9:g}"
    cells = (
        chip.device_kind,
        chip.vendor_name,
        str(chip.devices),
        joined,
        str(chip.links),
        sends,
        f"{chip.memory_bytes_per_s / 1e9:g}",
        chip.confidence.value,
        chip.source + (f"; {chip.doubt}" if chip.doubt else ""),
    )
    return f"| {' | '.join(cells)} |"
