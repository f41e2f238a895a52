"""One measuring session per machine, and the words for who is kept waiting."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from busbw import locks
from busbw.driver.local import BusyError, alone


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of the test's own."""
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))


def test_who_waits_is_told_for_whom_and_at_the_end_for_how_long() -> None:
    told: list[str] = []
    with alone(0), pytest.raises(BusyError) as error:
        alone(0.1, told.append).__enter__()
    (holder,) = told
    assert holder.startswith(f"pid {os.getpid()}, started ")
    said = f"another session has been measuring on this machine for 0.1 s ({holder})"
    assert str(error.value) == said


def test_what_is_raised_while_measuring_gives_the_machine_back() -> None:
    with pytest.raises(KeyboardInterrupt), alone(0):
        raise KeyboardInterrupt
    with alone(0):
        pass


def test_where_the_machine_cannot_be_locked_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: socket.socket, name: str) -> None:
        raise PermissionError("not in this sandbox")

    monkeypatch.setattr(socket.socket, "bind", refused)
    with pytest.raises(BusyError, match="the machine cannot be locked: not in this sandbox"):
        alone(0).__enter__()
