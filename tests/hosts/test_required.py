"""Why there can be no hosts here is said by name, one reason at a time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from . import required


@pytest.fixture(autouse=True)
def all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything."""
    monkeypatch.setenv(required.ASKED, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "is_char_device", lambda self: True)
    monkeypatch.setattr(shutil, "which", lambda name: name)


def test_nothing_is_missing_on_a_machine_that_has_everything() -> None:
    assert required.missing() == ""


def test_hosts_that_nobody_asked_for_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(required.ASKED)
    assert required.missing() == "BUSBW_HOSTS is not set; `tox -e hosts` sets it"


def test_without_root_the_reason_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert required.missing() == "network namespaces need root"


def test_without_a_device_for_cables_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_char_device", lambda self: False)
    assert required.missing().startswith("there is no /dev/net/tun")


def test_a_tool_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "tc" else name)
    assert required.missing().startswith("tc is not installed")
