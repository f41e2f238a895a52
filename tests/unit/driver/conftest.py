"""A bundle for the test, removed at its end; and what must not be remaining after one."""

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
    """Make a private folder below the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Bundle()
    yield made
    remaining = processes(made.path)
    made.remove()
    assert not remaining
    assert not made.path.exists()


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Check that no worker, no descriptor and no thread is remaining."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    assert wait_until(lambda: not processes(tmp_path), 10)
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads
