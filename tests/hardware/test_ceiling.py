"""Ceilings: worked by hand for slices and switches, and none where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.hardware import chips
from busbw.hardware.ceiling import ceiling_of, directed_links
from busbw.hardware.chips import CHIPS
from busbw.model.case import Case
from busbw.model.machine import EnvironmentKey
from busbw.model.words import MIB
from tests.build import case as a_case

GIB = 2**30


def _key(kind: str, ranks: int, mesh: str = "", hosts: int = 1) -> EnvironmentKey:
    return EnvironmentKey(device_kind=kind, ranks=ranks, mesh=mesh, hosts=hosts)


def _case(ranks: int, **changes: object) -> Case:
    return a_case(ranks=ranks, **changes)


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
def test_links_are_counted_in_both_directions(shape: str, links: int) -> None:
    assert directed_links(shape) == links


def test_a_full_torus_is_bounded_by_what_a_chip_can_send() -> None:
    found = ceiling_of(_key("TPU v5 lite", 256, "16x16"), _case(256))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(200e9)
    assert found.sure


def test_an_open_slice_is_bounded_by_the_links_in_use() -> None:
    """2x2: 8 directed links of 50 GB/s over 4 chips, two a chip."""
    found = ceiling_of(_key("TPU v5 lite", 4, "2x2"), _case(4))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(100e9)
    assert found.text == "links: 2 of 4 links of 50.0 GB/s in use"


def test_colors_bound_the_links_that_a_chip_sends_on() -> None:
    key = _key("TPU v5 lite", 256, "16x16")
    two = ceiling_of(key, _case(256), {"colors": "2"})
    four = ceiling_of(key, _case(256), {"colors": "4"})
    assert two is not None and four is not None
    assert two.bytes_per_s == pytest.approx(100e9)
    assert two.most_bytes_per_s == four.bytes_per_s == pytest.approx(200e9)
    assert two.text.endswith(", 2 colors")


def test_what_is_not_a_number_of_colors_bounds_nothing() -> None:
    key = _key("TPU v5 lite", 4, "2x2")
    assert ceiling_of(key, _case(4), {"colors": "2+4"}) == ceiling_of(key, _case(4))


def test_two_devices_of_a_chip_share_its_links() -> None:
    """8 devices on 4 chips of TPU7x: 2 (c-1) S over 8 links of 100 GB/s, busbw 7/8 of 800/3."""
    found = ceiling_of(_key("TPU7x", 8, "2x2"), _case(8))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(7 / 8 * 8 * 100e9 / 3)
    assert not found.sure


def test_a_switch_lets_each_gpu_send_on_all_its_links() -> None:
    found = ceiling_of(_key("NVIDIA A100-SXM4-80GB", 8), _case(8))
    assert found is not None
    assert found.bytes_per_s == found.most_bytes_per_s == pytest.approx(300e9)
    assert not found.in_switch


def test_a_switch_that_adds_up_allows_twice_as_much() -> None:
    found = ceiling_of(_key("NVIDIA H100 80GB HBM3", 8), _case(8))
    assert found is not None
    assert found.bytes_per_s == pytest.approx(450e9)
    assert found.most_bytes_per_s == pytest.approx(2 * 7 / 8 * 450e9)
    assert found.in_switch


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_adding_up_in_the_switch_saves_nothing_where_each_rank_still_moves_all(
    collective: str,
) -> None:
    found = ceiling_of(_key("NVIDIA H100 80GB HBM3", 8), _case(8, collective=collective))
    assert found is not None
    assert found.bytes_per_s == found.most_bytes_per_s == pytest.approx(450e9)
    assert not found.in_switch


def test_a_large_payload_is_bounded_by_memory_where_that_is_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 ranks, 400 GB/s of memory: 7/8 of it; a small payload stays in caches."""
    slow = replace(CHIPS[-1], device_kind="slow memory", memory_bytes_per_s=400e9)
    monkeypatch.setattr(chips, "CHIPS", (slow,))
    key = _key("slow memory", 8)
    large = ceiling_of(key, _case(8, payload_bytes=GIB))
    small = ceiling_of(key, _case(8, payload_bytes=MIB))
    assert large is not None and small is not None
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
def test_where_nothing_sure_is_known_there_is_no_ceiling(
    key: EnvironmentKey, changes: dict[str, object]
) -> None:
    assert ceiling_of(key, _case(key.ranks, **changes)) is None


def test_gathering_and_scattering_have_the_same_ceiling() -> None:
    key = _key("TPU v5 lite", 4, "2x2")
    found = {ceiling_of(key, _case(4, collective=name)) for name in ("all_gather", "all_reduce")}
    assert len(found) == 1
