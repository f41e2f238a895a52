"""A worker starts anew for huge pages, once, and before it has imported anything."""

from __future__ import annotations

import os
import sys

import pytest

from busbw.model import Device
from busbw.worker import huge_pages, process


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What this process, were it to start anew, would have become; it has another tunable."""
    found: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "environ", {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.check=0"})
    monkeypatch.setattr(os, "execv", lambda *command: found.append(command))
    monkeypatch.setattr(sys, "platform", "linux")
    return found


def test_a_process_that_the_c_library_did_not_tell_starts_anew(
    begun: list[tuple[object, ...]],
) -> None:
    process.prepare(Device.CPU)
    assert os.environ["GLIBC_TUNABLES"] == f"glibc.malloc.check=0:{huge_pages.TUNABLE}"
    assert begun == [(sys.executable, [sys.executable, *sys.orig_argv[1:]])]


def test_it_starts_anew_once(begun: list[tuple[object, ...]]) -> None:
    huge_pages.ask_for()
    huge_pages.ask_for()
    assert len(begun) == 1
    assert process.allocator() == "hugepages"


def test_without_glibc_it_stays_and_the_protocol_says_so(
    begun: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    huge_pages.ask_for()
    assert not begun
    assert process.allocator() == "malloc"
