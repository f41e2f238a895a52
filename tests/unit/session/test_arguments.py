"""The cache folder of a user, with and without a home directory."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from busbw.session import option


def test_the_cache_folder_comes_from_the_option_or_else_from_environment_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert option.cache_folder("/a") == Path("/a")
    assert option.cache_folder("") == Path("/cache/busbw")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert option.cache_folder("") == Path("/home/me/.cache/busbw")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(ValueError, match="this user has no home directory; expected HOME"):
        option.cache_folder("")
