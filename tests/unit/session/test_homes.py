"""The cache folder of a user, with and without a home directory."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from busbw.session import homes


def test_the_cache_folder_is_named_or_follows_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert homes.cache_folder("none") is None
    assert homes.cache_folder("/a") == Path("/a")
    assert homes.cache_folder("") == Path("/cache/busbw")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert homes.cache_folder("") == Path("/home/me/.cache/busbw")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(ValueError, match="no cache folder; expected a folder here or in XDG_CACHE"):
        homes.cache_folder("")
    assert homes.cache_folder("none") is None
