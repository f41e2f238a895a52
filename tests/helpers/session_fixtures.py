"""The folder that sessions run in; after each test nothing of them may be left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.forked import Forked
from tests.helpers.session_folder import Folder
from tests.helpers.stored_sessions import Written
from tests.helpers.workers import processes, wait_until


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    """Provide the process from which this process of tests forks its sessions."""
    server = Forked("pytest", tmp_path_factory.mktemp("forked"))
    yield server
    server.end()


@pytest.fixture(scope="session")
def written() -> Written:
    """Provide what sessions of this process of tests have stored."""
    return Written()


@pytest.fixture
def folder(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, forked: Forked, written: Written
) -> Iterator[Folder]:
    """Provide a new folder; in the end no worker runs and no bundle lies there."""
    private = Folder(pytester, monkeypatch, forked=forked, written=written)
    yield private
    private.end()
    assert wait_until(lambda: not processes(private.temporary), 5), "a worker is left"
    assert not private.left_over()
