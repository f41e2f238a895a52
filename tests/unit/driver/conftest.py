"""A bundle for the test, removed at its end; and what must not be left after one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from tests.helpers.workers import processes, wait_until


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


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No worker, no descriptor and no thread is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    assert wait_until(lambda: not processes(tmp_path), 10)
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads
