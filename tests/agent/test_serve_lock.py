"""The lock of an agent's host is tried again and again, and its holder is named at the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw import locks
from busbw.agent.messages import Lock, Locked
from busbw.agent.serve import MachineLock

# More than a listening socket can have waiting.
MANY = 1500


@pytest.fixture(autouse=True)
def a_machine_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has this lock."""
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))


def test_a_free_lock_is_had_at_once_and_until_it_is_closed() -> None:
    lock = MachineLock()
    assert lock.look() is None
    lock.ask(Lock(wait_s=1.0))
    assert lock.look() == Locked()
    assert not lock.is_awaited
    with pytest.raises(locks.Busy), locks.machine(0):
        pass
    lock.close()
    with locks.machine(0):
        pass


def test_a_holder_that_was_waited_for_long_is_still_named() -> None:
    now_s = [0.0]
    lock = MachineLock(lambda: now_s[0])
    with locks.machine(0):
        lock.ask(Lock(wait_s=10.0))
        assert [lock.look() for _ in range(MANY)] == [None] * MANY
        now_s[0] = 11.0
        found = lock.look()
    assert found is not None
    assert found.why.startswith(f"pid {os.getpid()}, started ")
    assert not lock.is_awaited


def test_a_holder_that_runs_is_waited_for_where_a_stopped_one_is_not() -> None:
    lock = MachineLock()
    with locks.machine(0):
        lock.ask(Lock(wait_s=10.0, even_stopped=False))
        assert [lock.look() for _ in range(MANY)] == [None] * MANY
    assert lock.look() == Locked()
    lock.close()


def test_a_lock_that_is_released_meanwhile_is_had() -> None:
    lock = MachineLock()
    with locks.machine(0):
        lock.ask(Lock(wait_s=10.0))
        assert lock.look() is None
    assert lock.look() == Locked()
    lock.close()
