"""Accidents to what is stored: baselines, histories, and files beside them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.adversarial.attacks.attack import Attack, baseline, written
from tests.helpers.session_folder import Folder

BASELINES = {
    "byte order mark": baseline(lambda text: "\ufeff" + text),
    "half": baseline(lambda text: text[: len(text) // 2]),
    "empty": baseline(lambda text: ""),
    "a conflict of merging": baseline(lambda text: f"<<<<<<< HEAD\n{text}"),
}


def _history(change: Callable[[bytes], bytes]) -> Attack:
    def do(folder: Folder) -> None:
        path = written(folder, "history")
        path.write_bytes(change(path.read_bytes()))

    return Attack(options=("--history=history",), do=do, codes=(1, 4))


HISTORIES = {
    "no newline at the end": _history(lambda lines: lines.rstrip(b"\n")),
    "half a line at the end": _history(lambda lines: lines + b'{"half'),
    "CRLF": _history(lambda lines: lines.replace(b"\n", b"\r\n")),
}


def _read_only(folder: Folder) -> None:
    written(folder, "baselines").chmod(0o000)
    folder.without_root()


def _moved(folder: Folder) -> None:
    """Rename the file of baselines; who requires baselines is told that there is none."""
    path = written(folder, "baselines")
    shutil.move(path, path.with_suffix(".JSON"))


def _left(folder: Folder) -> None:
    path = written(folder, "baselines")
    shutil.copy(path, f"{path}.00000000.new")


def _copied(folder: Folder) -> None:
    """Copy the file of baselines; its times do not count beside those of the original."""
    path = written(folder, "baselines")
    shutil.copy(path, path.with_suffix(".old.json"))


def _pipe(folder: Folder) -> None:
    """Replace the machine's history by a named pipe, as `mkfifo` with a wrong name does."""
    machine = written(folder, "history").parent
    shutil.rmtree(machine)
    os.mkfifo(machine)


FILES = {
    "a copy of the file": Attack(do=_copied, codes=(1, 4)),
    "a pipe for the history": Attack(do=_pipe, options=("--history=history",), codes=(1, 4)),
    "the file cannot be read": Attack(do=_read_only, codes=(1, 4)),
    "the file is renamed": Attack(do=_moved, options=("--require-baselines",), codes=(1, 4)),
    "the folder is gone": Attack(
        do=lambda folder: shutil.rmtree(folder.path / "baselines"),
        options=("--require-baselines",),
        codes=(1, 4),
    ),
    "a killed writer's file": Attack(do=_left, codes=(1,)),
    "the disk is full": Attack(
        do=lambda folder: folder.fill_disk(),
        options=("--history=history", "--results=full.json"),
        codes=(1, 3),
    ),
    "results over a baseline": Attack(
        do=lambda folder: Path(folder.path / "over.json").symlink_to(written(folder, "baselines")),
        options=("--results=over.json",),
        codes=(1, 4),
    ),
}
