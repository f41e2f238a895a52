"""What is left when a session is over: processes, folders, locks, baselines, its history."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from busbw import baselines, driver, history, locks
from busbw.baselines import timed

from .ground import PAYLOADS, Ground, commands

_LOOK_S = 0.05


def processes(ground: Ground) -> list[int]:
    """Who still runs, some seconds later, of those that a session started, directly or not."""
    end_s = time.monotonic() + ground.place.soon_s
    while (found := _processes(ground)) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)
    return found


def _processes(ground: Ground) -> list[int]:
    """By command line or environment, which all that a worker starts gets from it."""
    folder = str(ground.path)
    named = {process for process, words in commands().items() if folder in " ".join(words)}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}" in path.read_text(errors="replace"):
                named.add(int(path.parent.name))
        except OSError:
            continue
    return sorted((named | ground.place.processes()) - {os.getpid()})


def folders(ground: Ground) -> list[str]:
    """What is in the folder for temporary files."""
    return sorted(path.name for path in ground.temporary.iterdir())


def folders_after_the_next(ground: Ground) -> list[str]:
    """The same once another session has begun and ended."""
    before = tempfile.tempdir
    tempfile.tempdir = str(ground.temporary)
    try:
        driver.Bundle().remove()
    finally:
        tempfile.tempdir = before
    return folders(ground)


def held(ground: Ground) -> list[str]:
    """Locks that somebody still holds."""
    found = ground.place.locks()
    before = os.environ.get(locks.MACHINE)
    os.environ[locks.MACHINE] = str(ground.path)
    try:
        with locks.machine(0):
            pass
    except locks.Busy as error:
        found.append(f"the machine's lock ({error})")
    finally:
        os.environ.pop(locks.MACHINE)
        if before is not None:
            os.environ[locks.MACHINE] = before
    try:
        with locks.folder(ground.baselines, 0):
            pass
    except locks.Busy as error:
        found.append(f"the lock of the baselines ({error})")
    return found


def damage(ground: Ground, entries: int) -> list[str]:
    """What is wrong with the baselines: files beside them, one that cannot be read or lost a line.

    `entries` is how many there are once a session has stored its own.
    """
    here, before = _files(ground.baselines), _files(ground.stored)
    wrong = [f"{name} is new" for name in sorted(set(here) - set(before))]
    wrong += [f"{name} is gone" for name in sorted(set(before) - set(here))]
    for name in sorted(set(here) & set(before)):
        if here[name].read_bytes() == before[name].read_bytes():
            continue
        try:
            now = timed.read(here[name]).entries
        except baselines.BaselineError as error:
            wrong.append(str(error))
            continue
        old = timed.read(before[name]).entries
        if not all(entry in now for entry in old) or len(now) != entries:
            wrong.append(f"{name} has {len(now)} entries, expected {len(old)} or {entries}")
    return wrong


def history_damage(ground: Ground, *, ended: bool) -> list[str]:
    """What is wrong with the history: lines that were there, or those of the session.

    They are all there; if the session was `ended`, there can be none, and part of a line.
    """
    old = b"".join(path.read_bytes() for path in _files(ground.appended).values())
    here = list(_files(ground.history).values())
    try:
        # Its own file, unless the year has ended since.
        (lines,) = (read.lines for read in history.read_all(ground.history).values())
    except history.HistoryError as error:
        return [str(error)]
    wrong = []
    if not b"".join(path.read_bytes() for path in sorted(here)).startswith(old):
        wrong.append("the history has lost lines")
    own = len(lines) - old.count(b"\n")
    if own != len(PAYLOADS) and not (ended and own == 0):
        wrong.append(f"the history has {own} lines of the session, expected {len(PAYLOADS)}")
    return wrong


def _files(folder: Path) -> dict[str, Path]:
    return {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
