"""Baselines that sessions have written, for tests that need the same ones and not the session.

The same are those of a session that was begun with the same options, in the same environment, over
the same files. What the fake back end gives does not change from one session to the next.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

BASELINES = "baselines"
# What sessions leave that no later one reads.
_REPORTS = {"junit.xml", "results.json", "stdout", "stderr", "output.txt", ".benchmarks"}
_NEVER_READ = {*_REPORTS, "temporary", "base", "__pycache__"}
# Of the test that runs.
_VOLATILE = ("PYTEST_", "BUSBW_MACHINE", "TMPDIR")


class Written:
    """The files below baselines/ by what the session that wrote them had begun with."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, bytes]] = {}

    def or_by(self, session: Callable[[], object], options: Sequence[str], folder: Path) -> None:
        """Put the files there that `session` would write, or let it, and keep them."""
        before = _digest(folder, options)
        if before in self._files:
            _put(self._files[before], folder / BASELINES)
            return
        others = _digest(folder, options, without=BASELINES)
        session()
        # What wrote something else too is no session to leave out.
        if _digest(folder, options, without=BASELINES) == others:
            self._files[before] = {
                str(path.relative_to(folder / BASELINES)): path.read_bytes()
                for path in (folder / BASELINES).rglob("*")
                if path.is_file()
            }


def _put(files: dict[str, bytes], baselines: Path) -> None:
    shutil.rmtree(baselines, ignore_errors=True)
    for name, content in files.items():
        path = baselines / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _digest(folder: Path, options: Sequence[str], without: str = "") -> str:
    """Return a hash of everything that a session in `folder` reads, wherever that lies."""
    texts = [os.getcwd(), *options]
    texts += [f"{n}={t}" for n, t in sorted(os.environ.items()) if not n.startswith(_VOLATILE)]
    parts = [text.encode() for text in texts]
    parts += _parts(folder, _NEVER_READ | {without})
    name = str(folder).encode()
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.replace(name, b"") + b"\0")
    return whole.hexdigest()


def _parts(folder: Path, left_out: set[str]) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()):
        if path.name in left_out:
            continue
        yield f"{path} {path.lstat().st_mode}".encode()
        if path.is_symlink() or path.is_fifo():
            yield os.readlink(path).encode() if path.is_symlink() else b""
        elif path.is_dir():
            yield from _parts(path, left_out)
        else:
            yield path.read_bytes()
