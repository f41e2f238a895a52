"""--payloads: ranges that double and lists; nonsense says what is accepted and measures nothing."""

from __future__ import annotations

from .folder import Folder


def test_small_letters_are_sizes_too_as_in_nccl_tests(folder: Folder) -> None:
    assert list(folder.run("--payloads=1k,1m", exit_code=0).outcomes) == ["1K", "1M"]


def test_ranges_and_lists_are_measured_in_the_order_of_size(folder: Folder) -> None:
    ran = folder.run("--payloads=1M,1K:4K,1536", exit_code=0)
    assert list(ran.outcomes) == ["1K", "1536", "2K", "4K", "1M"]


def test_the_default_is_every_power_of_two_from_1k_to_1024m(folder: Folder) -> None:
    ran = folder.pytest("perf", "--frameworks=fake", "--collect-only", "-q", exit_code=0)
    ids = [line for line in ran.text.splitlines() if "test_collective[" in line]
    assert len(ids) == 21
    assert ids[0].endswith("float32-1K]")
    assert ids[-1].endswith("float32-1024M]")
