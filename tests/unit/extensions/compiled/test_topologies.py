"""Topologies by name."""

from __future__ import annotations

import re

import pytest

from busbw.extensions.compiled.compilers import (
    GPUS,
    SLICED_CHIPS,
    TOPOLOGY_SETS,
    parse_topology,
)
from busbw.model.words import DeviceClass

KNOWN = [f"{chip.name}:{shape}" for chip in SLICED_CHIPS.values() for shape in chip.shapes]
KNOWN += [f"{name}:8" for name in GPUS]


@pytest.mark.parametrize(
    ("name", "ranks", "kind"),
    [
        ("v2:2x2", 8, "TPU v2"),
        ("v2:16x16", 512, "TPU v2"),
        ("v5e:2x4", 8, "TPU v5 lite"),
        ("v4:2x2x2", 8, "TPU v4"),
        ("tpu7x:2x2x1", 8, "TPU7x"),
    ],
)
def test_a_topology_of_a_tpu_slice_has_the_ranks_and_the_device_kind_of_its_chips(
    name: str, ranks: int, kind: str
) -> None:
    topology = parse_topology(name)
    assert (topology.ranks, topology.device_kind, topology.device) == (ranks, kind, DeviceClass.TPU)
    assert topology.description_arguments["topology_name"] == name


def test_a_topology_name_of_gpus_gives_its_number_of_hosts() -> None:
    single, two = parse_topology("h100:8"), parse_topology("h100:2x8")
    assert (single.ranks, single.hosts) == (8, 1)
    assert (two.ranks, two.hosts) == (16, 2)
    layouts = [topology.description_arguments["topology"] for topology in (single, two)]
    assert layouts == ["1x1x8", "1x2x8"]
    assert single.memory_bytes == GPUS["h100"].memory_bytes


@pytest.mark.parametrize("name", KNOWN)
def test_every_listed_topology_has_two_or_more_ranks(name: str) -> None:
    assert parse_topology(name).ranks >= 2


def test_the_value_all_of_the_option_topology_means_exactly_one_topology_for_each_chip() -> None:
    kinds = [parse_topology(name).device_kind for name in TOPOLOGY_SETS["all"]]
    assert len(set(kinds)) == len(kinds) == len({name.partition(":")[0] for name in KNOWN})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v5e:3x5x7", "v5e is known as v5e:2x2, v5e:2x4"),
        ("v5e", "v5e is known as"),
        ("v5e:4x2", "v5e is known as v5e:2x2, v5e:2x4"),
        ("v9:2x2", "no chip is called 'v9'; expected one of v2, v3"),
        ("", "no chip is called ''"),
        ("h100:1", "2 to 8 GPUs in a host, such as h100:8"),
        ("h100:9", "2 to 8 GPUs in a host"),
        ("h100:0x8", "2 to 8 GPUs"),
        ("h100:eight", "2 to 8 GPUs"),
    ],
)
def test_the_refusal_of_an_unknown_topology_lists_the_valid_topologies(
    name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_topology(name)
