"""Hints on options that pytest does not know; of options that are known there is none."""

from __future__ import annotations

import re

import pytest

from busbw.plugin import hints

from .folder import Folder

FLAGS = ("--payloads", "--ranks", "--clock", "--results", "--device")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], None),
        (["perf", "--payloads=1K", "-k", "b", "-x"], None),
        (["-f", "2"], None),
        (["-b"], "for nccl-tests' -b and -e write --payloads=:32M"),
        (["-g", "1", "-b", "8"], "for nccl-tests' -b and -e write --payloads=8:32M"),
        (["-e", "all"], "for nccl-tests' -b and -e write --payloads=32M:all"),
        (["--rank=3"], "did you mean --ranks=3?"),
        (["-i", "1024"], "a range doubles; other steps are a comma list, such as 1K,8K,64K"),
    ],
)
def test_a_hint_is_of_what_is_asked(arguments: list[str], said: str | None) -> None:
    assert hints.of(arguments, FLAGS) == ({} if said is None else {"busbw": said})


def test_no_option_of_pytest_or_its_plugins_is_taken_for_a_mistake(folder: Folder) -> None:
    ran = folder.pytest("--help", "perf", exit_code=0, reports=False)
    ours = "".join(text.split("\n\n")[0] for text in ran.text.split("\nbusbw: ")[1:])
    flags = sorted(set(re.findall(r"--[a-z][a-z-]+", ours)))
    assert "--payloads" in flags
    others = sorted(set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", ran.text)) - set(flags))
    assert {"--verbose", "--benchmark-json", "-n"} <= set(others)
    assert hints.of(others, flags) == {}
