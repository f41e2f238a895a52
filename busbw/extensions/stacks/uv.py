"""Run uv to resolve requirements and install packages; build folders completely or not at all.

uv is a program that installs packages of Python.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from busbw import storage, wire
from busbw.driver.local import command_ending_with

# Another process that builds an environment may have to download gigabytes of CUDA's libraries.
_LOCK_TIMEOUT_S = 3600.0
_MAX_ERROR_CHARACTERS = 600
# The options with which `resolve_requirements` returns the text of a lock in the format of PEP 751.
PYLOCK_OPTIONS = ("--format=pylock.toml", "--generate-hashes")


class StackError(ValueError):
    """The error of a stack that cannot be locked, read or built; the message has the reason."""


def run_uv(*arguments: str | Path, text: str = "") -> str:
    """Run uv with `arguments` and the standard input `text`; return the standard output.

    Raises StackError, with uv's error message, if uv fails or is not installed.
    """
    program = shutil.which(
        "uv", path=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()])
    )
    if program is None:
        raise StackError("uv is not installed; expected it from `pip install 'busbw[stack]'`")
    return run_command([program, *map(str, arguments)], text)


def run_command(command: Sequence[str], text: str = "") -> str:
    """Run `command` with the standard input `text`, and return the standard output.

    The command is killed if this process ends. Raises StackError, with the end of the command's
    standard error, if the command ends with another exit code than 0.
    """
    # A download must not continue after its session was killed.
    done = subprocess.run(
        command_ending_with(os.getpid(), command),
        input=text,
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        words = wire.escape_unprintable(" ".join(done.stderr.split()))[-_MAX_ERROR_CHARACTERS:]
        raise StackError(f"{Path(command[0]).name}: {words or f'exit code {done.returncode}'}")
    return done.stdout


def resolve_requirements(requirements: Iterable[str], python: str, *options: str) -> str:
    """Return the packages that satisfy `requirements`, as text.

    Raises StackError if no packages satisfy the requirements.

    Args:
        requirements: The requirements, such as ``jax==0.7.0``.
        python: The path of an interpreter, or a version of Python. Only wheels for this version
            are considered.
        options: Options of ``uv pip compile``, which can choose the format of the text, such as
            PYLOCK_OPTIONS. By default the text has lines such as ``jax==0.7.0``.

    """
    common = ("--quiet", "--no-header", "--no-annotate", "--only-binary=:all:", "--python", python)
    return run_uv("pip", "compile", *common, *options, "-", text="\n".join(requirements))


def install_packages(folder: Path, pylock: str, python: str, *options: str) -> None:
    """Make a virtual environment in `folder`, and install the packages of a lock into it.

    Args:
        folder: The folder, which does not exist yet.
        pylock: The text of a lock in the format of PEP 751.
        python: The path of an interpreter, or a version of Python. uv downloads no interpreter.
        options: Further options of ``uv pip sync``.

    Raises:
        StackError: uv fails, for example because there is no such interpreter.

    """
    base = ("--quiet", "--no-project", "--no-python-downloads", f"--python={python}")
    run_uv("venv", *base, "--relocatable", folder)
    storage.write(folder / "pylock.toml", pylock)
    installed = ("--quiet", "--require-hashes", "--no-build", f"--python={folder}/bin/python")
    run_uv("pip", "sync", *installed, *options, folder / "pylock.toml")


def build_once(folder: Path, build: Callable[[Path], object]) -> None:
    """Build `folder` unless `folder` exists, so that an interrupted build leaves no folder.

    `build` is called with the path of a new folder, which `build` must make. The new folder is then
    renamed to `folder`. If another process is building in the same parent folder, this function
    waits until the other process is ready. Raises StackError if the folder cannot be written, or if
    the other process builds for more than an hour.
    """
    new, where = folder.with_name(f"{folder.name}.new"), f"{folder} cannot be built: "
    with (
        storage.reraise_as(StackError, OSError, storage.LockedError, where=where),
        storage.lock_folder(folder.parent, _LOCK_TIMEOUT_S),
        contextlib.ExitStack() as undo,
    ):
        undo.callback(shutil.rmtree, new, ignore_errors=True)
        # A process that was killed may have left this folder.
        shutil.rmtree(new, ignore_errors=True)
        if not folder.exists():
            build(new)
            new.rename(folder)
