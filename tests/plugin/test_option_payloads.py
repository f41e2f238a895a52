"""--payloads: ranges that double and lists; nonsense says what is accepted and measures nothing."""

from __future__ import annotations

import pytest

from .folder import Folder


@pytest.mark.parametrize("text", ["", "abc", "0", "-1K", "1K,,2K", "1.5K"])
def test_nonsense_is_a_usage_error_that_says_what_a_size_is(folder: Folder, text: str) -> None:
    ran = folder.run(f"--payloads={text}", exit_code=4)
    assert "--payloads: " in ran.sentence
    assert "is not a size; accepted is a whole number of bytes with K, M or G" in ran.sentence
    assert ran.results is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("4M:1K", "did you mean 1K:4M?"),
        ("1k-1m", "did you mean 1K:1M?"),
        ("1KB", "did you mean 1K?"),
        ("4K,1 MiB", "did you mean 1M?"),
        ("8B", "did you mean 8?"),
        ("1K:2K:3K", "accepted is begin:end, such as 1K:1024M"),
        ("8:128M:2", "which doubles: the only step there is"),
    ],
)
def test_what_is_meant_is_said_in_three_lines(folder: Folder, text: str, meant: str) -> None:
    ran = folder.run(f"--payloads={text}", exit_code=4)
    assert meant in ran.sentence
    assert len(ran.sentence) <= 3 * 80


def test_small_letters_are_sizes_too_as_in_nccl_tests(folder: Folder) -> None:
    assert list(folder.run("--payloads=1k,1m", exit_code=0).outcomes) == ["1K", "1M"]


def test_a_payload_that_is_no_whole_number_of_elements_is_a_usage_error(folder: Folder) -> None:
    ran = folder.run("--payloads=1022", exit_code=4)
    assert "1022 bytes is not a whole number of float32 elements of 4 bytes" in ran.sentence


def test_ranges_and_lists_are_measured_in_the_order_of_size(folder: Folder) -> None:
    ran = folder.run("--payloads=1M,1K:4K,1536", exit_code=0)
    assert list(ran.outcomes) == ["1K", "1536", "2K", "4K", "1M"]


def test_the_default_is_every_power_of_two_from_1k_to_1024m(folder: Folder) -> None:
    ran = folder.pytest("perf", "--frameworks=fake", "--collect-only", "-q", exit_code=0)
    ids = [line for line in ran.text.splitlines() if "test_collective[" in line]
    assert len(ids) == 21
    assert ids[0].endswith("float32-1K]")
    assert ids[-1].endswith("float32-1024M]")
