"""A bundle of workers that compile, and the folder that sessions run in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from tests.helpers.session_fixtures import folder, forked, written
from tests.helpers.workers import processes

__all__ = ["bundle", "folder", "forked", "written"]


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Bundle]:
    """Make a private folder below the test's own; at the end no process of it is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bundle = Bundle(("compiled",))
    yield bundle
    assert not processes(bundle.path)
    bundle.remove()
