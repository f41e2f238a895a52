"""The folder that sessions run in; after each test nothing of them may be left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.driver.processes import processes, wait_until

from .folder import Folder


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """A folder of its own; at the end no worker runs and no bundle lies there any more."""
    found = Folder(pytester, monkeypatch)
    yield found
    found.end()
    assert wait_until(lambda: not processes(found.temporary), 5), "a worker is left"
    assert not found.left_over()
