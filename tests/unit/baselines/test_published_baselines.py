"""The shipped figures of a TPU v2: equal to the figures of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.baselines.store import (
    PublishedTable,
    read_published_table,
)

BASELINES = Path(__file__).parents[3] / "baselines"
FILES = sorted(BASELINES.glob("*/*/published.*.json"))
RANKS = {"v2-8": 8, "v2-32": 32, "v2-128": 128, "v2-512": 512}


def _table(name: str) -> PublishedTable:
    (path,) = BASELINES.glob(f"tpu-v2/{RANKS[name]}r/published.all_reduce.*.json")
    return read_published_table(path)


def test_the_published_rates_have_one_table_for_each_tpu_slice() -> None:
    assert {table.slice: table.ranks for table in map(read_published_table, FILES)} == RANKS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_table_of_published_rates_is_in_the_folder_of_its_device_kind_and_ranks(
    path: Path,
) -> None:
    table = read_published_table(path)
    assert (table.document, table.version) == ("busbw published figures", 1)
    assert (table.device_kind, table.collective) == ("TPU v2", "all_reduce")
    assert path.parent == BASELINES / "tpu-v2" / f"{table.ranks}r"


@pytest.mark.parametrize(
    ("name", "payload", "gib_per_s"),
    [
        ("v2-8", "1K", 0.143237),
        ("v2-8", "64M", 45.83869),
        ("v2-8", "1024M", 46.58699),
        ("v2-32", "16K", 1.246939),
        ("v2-32", "1024M", 44.55728),
        ("v2-128", "1K", 0.021191),
        ("v2-128", "512M", 42.14659),
        ("v2-512", "512K", 8.670844),
        ("v2-512", "128M", 48.67078),
    ],
)
def test_a_published_rate_equals_the_rate_of_its_source_in_gb_per_s(
    name: str, payload: str, gib_per_s: float
) -> None:
    assert _table(name).algbw_gb_per_s[payload] == float(f"{gib_per_s * 1024**3 / 1e9:.6g}")


def test_the_published_rates_say_out_of_memory_for_the_same_two_payloads_as_their_source() -> None:
    out_of_memory = {
        (name, payload)
        for name in RANKS
        for payload, algbw_gb_per_s in _table(name).algbw_gb_per_s.items()
        if algbw_gb_per_s is None
    }
    assert out_of_memory == {("v2-128", "1024M"), ("v2-512", "256M")}


def test_the_published_rates_leave_out_payloads_that_their_source_did_not_measure() -> None:
    assert [len(_table(name).algbw_gb_per_s) for name in RANKS] == [21, 21, 21, 10]
    payloads = list(_table("v2-512").algbw_gb_per_s)
    assert (payloads[0], payloads[-1]) == ("512K", "256M")


@pytest.mark.parametrize("name", RANKS)
def test_only_the_published_rate_of_the_payload_1k_is_marked_as_doubtful(name: str) -> None:
    assert list(_table(name).doubts) == (["1K"] if name != "v2-512" else [])
