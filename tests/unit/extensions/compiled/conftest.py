"""A bundle of workers that compile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from tests.helpers.workers import processes


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bundle]:
    """Make a private folder below the test's own; at the end no process of it is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bundle = Bundle()
    yield bundle
    assert not processes(bundle.path)
    bundle.remove()
