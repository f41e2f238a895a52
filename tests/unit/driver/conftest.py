"""A bundle for the test, removed at its end; and what must not be remaining after one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from tests.helpers.workers import processes


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bundle]:
    """Make a private folder below the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Bundle()
    yield made
    remaining = processes(made.path)
    made.remove()
    assert not remaining
    assert not made.path.exists()
