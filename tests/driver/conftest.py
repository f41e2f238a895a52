"""A bundle for the test, removed at its end; no worker of it may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver import Bundle

from .processes import processes


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bundle]:
    """A private folder below the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = Bundle()
    yield found
    left = processes(found.path)
    found.remove()
    assert not left
    assert not found.path.exists()
