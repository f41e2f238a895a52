"""Environments that uv builds, each whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from busbw import storage, wire
from busbw.driver.local import tied_to

# Another process that builds may have gigabytes of CUDA's libraries to download.
_WAIT_S = 3600.0
_SHOWN_CHARACTERS = 600


# Options of `resolve` for the text of a file of PEP 751.
PYLOCK = ("--format=pylock.toml", "--generate-hashes")


class StackError(ValueError):
    """A stack that cannot be locked, read or built; the message says why, and what to do."""


def uv(*words: str | Path, text: str = "") -> str:
    """Run uv with `text` as its standard input, and return its standard output.

    Raises StackError with the words of uv if it fails.
    """
    program = shutil.which(
        "uv", path=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()])
    )
    if program is None:
        raise StackError("uv is not installed; expected it from `pip install 'busbw[stack]'`")
    return run([program, *map(str, words)], text)


def run(command: Sequence[str], text: str = "") -> str:
    """Return the standard output of `command`, which ends with this process.

    Raises StackError with its standard error if it fails.
    """
    # A session that is killed must not leave a download running.
    done = subprocess.run(
        tied_to(os.getpid(), command), input=text, capture_output=True, check=False, text=True
    )
    if done.returncode != 0:
        words = wire.printable(" ".join(done.stderr.split()))[-_SHOWN_CHARACTERS:]
        raise StackError(f"{Path(command[0]).name}: {words or f'exit code {done.returncode}'}")
    return done.stdout


def resolve(requirements: Iterable[str], python: str, *options: str) -> str:
    """Return the packages that satisfy `requirements`, in the format that `options` select.

    Only wheels that `python` can install are considered. Raises StackError if there are none.
    """
    shared = ("--quiet", "--no-header", "--no-annotate", "--only-binary=:all:", "--python", python)
    return uv("pip", "compile", *shared, *options, "-", text="\n".join(requirements))


def install(folder: Path, pylock: str, python: str, *options: str) -> None:
    """Make a virtual environment in `folder` with the packages of `pylock`, a text of PEP 751.

    `python` is the path of an interpreter or a version; none is downloaded. Raises StackError.
    """
    base = ("--quiet", "--no-project", "--no-python-downloads", f"--python={python}")
    uv("venv", *base, "--relocatable", folder)
    storage.write(folder / "pylock.toml", pylock)
    installed = ("--quiet", "--require-hashes", "--no-build", f"--python={folder}/bin/python")
    uv("pip", "sync", *installed, *options, folder / "pylock.toml")


def build_once(folder: Path, build: Callable[[Path], object]) -> None:
    """Call `build` with a new folder that becomes `folder`, unless that exists already.

    Another process that builds beside it is waited for. An interrupted build leaves nothing that
    looks finished. Raises StackError.
    """
    new = folder.with_name(f"{folder.name}.new")
    try:
        with storage.folder_lock(folder.parent, _WAIT_S):
            try:
                # A killed process left it.
                shutil.rmtree(new, ignore_errors=True)
                if not folder.exists():
                    build(new)
                    new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except (OSError, storage.LockedError) as error:
        raise StackError(f"{folder} cannot be built: {error}") from error
