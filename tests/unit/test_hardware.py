"""Figures of chips, and ceilings, which are missing for unknown hardware."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import hardware
from busbw.hardware import (
    CHIPS,
    Chip,
    ceiling_of,
    ceiling_of_all_links,
    chip_of,
    count_directed_links,
)
from busbw.model.machine import EnvironmentKey
from busbw.model.verdict import BandwidthCeiling
from busbw.model.words import GIB, MIB
from tests.helpers import build

PAGE = Path(__file__).parents[2] / "docs" / "measuring.md"


@pytest.mark.parametrize(
    ("device_kind", "known_as"),
    [
        ("TPU v5 lite", "TPU v5 lite"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4"),
        *((name, "") for name in ("TPU v4 lite", "NVIDIA H100 PCIe", "NVIDIA B2000")),
        *((name, "") for name in ("AMD EPYC", "Fake CPU", "")),
    ],
)
def test_a_gpu_is_recognized_by_the_beginning_of_its_name(device_kind: str, known_as: str) -> None:
    chip = chip_of(device_kind)
    assert (chip.device_kind if chip else "") == known_as


def test_the_documentation_of_measuring_lists_exactly_the_chips_with_their_rates_and_sources() -> (
    None
):
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| device kind |"))
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[begin + 2 :]))
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [row[:8] for row in cells] == [_row(chip) for chip in CHIPS]
    assert all(row[8] for row in cells)
    assert len({chip.device_kind for chip in CHIPS}) == len(CHIPS)


def _row(chip: Chip) -> list[str]:
    """Return the first cells of a chip's row in docs/measuring.md, with rates in GB/s."""
    is_trusted = chip.confidence != "low"
    return [
        chip.device_kind,
        chip.name,
        str(chip.devices_per_chip),
        "yes" if chip.can_reduce_in_switch else "no",
        str(chip.links),
        f"{chip.link_bytes_per_s / 1e9:g}" if is_trusted else "none",
        f"{chip.memory_bytes_per_s / 1e9:g}",
        chip.confidence,
    ]


def _key(kind: str, ranks: int, mesh: str = "", hosts: int = 1) -> EnvironmentKey:
    return EnvironmentKey(device_kind=kind, ranks=ranks, mesh=mesh, hosts=hosts)


def _ceiling(
    key: EnvironmentKey, *, algorithm: dict[str, str] | None = None, **changes: Any
) -> BandwidthCeiling:
    ceiling = ceiling_of(key, build.case(ranks=key.ranks, **changes), algorithm)
    assert ceiling is not None
    return ceiling


@pytest.mark.parametrize(
    ("shape", "links"),
    [
        ("2x1", 2),  # one link, two directions
        ("2x2", 8),  # a square
        ("2x4", 20),  # 4 columns of one link, 2 rows of three
        ("4x4", 48),
        ("16x16", 1024),  # closed along both axes: four links each
        ("2x2x2", 24),
        ("4x4x4", 384),  # a whole cube closes: six links each
        ("4x4x8", 768),
    ],
)
def test_each_link_of_a_mesh_is_counted_once_in_each_direction(shape: str, links: int) -> None:
    assert count_directed_links(shape) == links


TORUS, SQUARE = _key("TPU v5 lite", 256, "16x16"), _key("TPU v5 lite", 4, "2x2")
A100, H100 = _key("NVIDIA A100-SXM4-80GB", 8), _key("NVIDIA H100 80GB HBM3", 8)
ADDED = {"bytes_per_s": 450e9, "most_bytes_per_s": 2 * 7 / 8 * 450e9, "in_switch": True}
MOVED = {"bytes_per_s": 450e9, "most_bytes_per_s": 450e9, "in_switch": False}


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        # A chip of a full torus sends on all its links.
        (TORUS, {}, {"bytes_per_s": 200e9, "sure": True}),
        # 8 directed links of 50 GB/s over 4 chips, two a chip.
        (
            SQUARE,
            {},
            {"bytes_per_s": 100e9, "text": "links: 2 of 4 links of 50.0 GB/s in use"},
        ),
        (SQUARE, {"collective": "all_gather"}, {"bytes_per_s": 100e9}),
        (
            TORUS,
            {"algorithm": {"colors": "2"}},
            {"bytes_per_s": 100e9, "most_bytes_per_s": 200e9},
        ),
        (TORUS, {"algorithm": {"colors": "4"}}, {"bytes_per_s": 200e9}),
        # Not a number of colors.
        (SQUARE, {"algorithm": {"colors": "2+4"}}, {"bytes_per_s": 100e9}),
        # 8 devices on 4 chips: 2 (c-1) S over 8 links of 100 GB/s, busbw 7/8 of 800/3.
        (_key("TPU7x", 8, "2x2"), {}, {"bytes_per_s": 7 / 8 * 8 * 100e9 / 3, "sure": False}),
        (
            A100,
            {},
            {"bytes_per_s": 300e9, "most_bytes_per_s": 300e9, "in_switch": False},
        ),
        # A switch that adds up saves nothing where each rank still moves all.
        (H100, {}, ADDED),
        (H100, {"collective": "all_gather"}, MOVED),
        (H100, {"collective": "reduce_scatter"}, MOVED),
    ],
)
def test_a_ceiling_is_the_busbw_that_the_links_in_use_allow(
    key: EnvironmentKey, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    ceiling = _ceiling(key, **options)
    assert {name: getattr(ceiling, name) for name in expected} == pytest.approx(expected)


def test_a_case_whose_ranks_share_a_device_has_no_ceiling_and_no_bound_of_its_rate() -> None:
    shared = replace(_key("NVIDIA H100 80GB HBM3", 2), processes=2, shared=True)
    case = build.case(ranks=2)
    assert ceiling_of(replace(shared, shared=False), case) is not None
    bound = ceiling_of_all_links(replace(shared, shared=False), case)
    assert bound is not None and "all 18 links of 25.0 GB/s" in bound.text
    assert ceiling_of(shared, case) is ceiling_of_all_links(shared, case) is None


def test_the_memory_rate_is_the_ceiling_of_a_large_payload_if_memory_is_slower_than_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Expect 7/8 of 400 GB/s of memory for 8 ranks; a small payload stays in caches."""
    slow = replace(CHIPS[-1], device_kind="slow memory", memory_bytes_per_s=400e9)
    monkeypatch.setattr(hardware, "CHIPS", (slow,))
    key = _key("slow memory", 8)
    large = _ceiling(key, payload_bytes=GIB)
    small = _ceiling(key, payload_bytes=MIB)
    assert large.bytes_per_s == pytest.approx(350e9)
    assert large.text == "memory of 400 GB/s"
    assert small.bytes_per_s == pytest.approx(900e9)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (_key("TPU v2", 8, "2x2"), {}),
        (_key("TPU v3", 8, "2x2"), {}),
        (_key("AMD EPYC", 4), {}),
        (_key("TPU v5 lite", 8), {}),
        (_key("TPU v5 lite", 8, "4x4"), {}),
        (_key("NVIDIA H200", 16, hosts=2), {}),
        (_key("TPU v5 lite", 8, "2x4"), {"axes": "y", "mesh": "2x4"}),
        (_key("NVIDIA H200", 8), {"collective": "all_to_all"}),
        (_key("NVIDIA H200", 8), {"collective": "permute"}),
    ],
)
def test_a_case_whose_links_are_uncertain_has_no_ceiling(
    key: EnvironmentKey, changes: dict[str, object]
) -> None:
    assert ceiling_of(key, build.case(ranks=key.ranks, **changes)) is None
