"""The secret that a session and its agents share: where it is read from, and never shown.

It comes from a file that only its owner can read, from the environment, or from stdin; never from a
command line, which every user of a host can see.
"""

from __future__ import annotations

import os
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import TextIO

from .processes import SECRET

LEAST_CHARACTERS = 16
_MOST_BYTES = 4096


class SecretError(ValueError):
    """There is no secret, or none that may be used; the message says what is accepted."""


def secret_of(
    path: Path | None, environment: MutableMapping[str, str], stdin: TextIO | None = None
) -> bytes:
    """Taken out of `environment`, so that no process inherits it. A terminal is not read."""
    of_environment = environment.pop(SECRET, "")
    if path is not None:
        return _checked(_content(path), f"the secret in {path}")
    if of_environment:
        return _checked(of_environment, f"the secret in {SECRET}")
    if stdin is not None and not stdin.isatty():
        return _checked(stdin.readline(_MOST_BYTES), "the secret on stdin")
    accepted = f"in the file that --secret-file names, or in the variable {SECRET}"
    raise SecretError(f"there is no secret; accepted is one {accepted}")


def _content(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            mode = stat.S_IMODE(found.st_mode)
            if not stat.S_ISREG(found.st_mode):
                raise SecretError(f"{path} is no file")
            if found.st_uid not in (os.getuid(), 0):
                raise SecretError(f"{path} belongs to another user")
            if mode & 0o077:
                raise SecretError(
                    f"{path} has mode {mode:o}, others may read it; accepted is a file of its "
                    f"owner alone: chmod 600 {path}"
                )
            return file.read(_MOST_BYTES).decode()
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SecretError(f"{path} is no text") from error


def _checked(text: str, what: str) -> bytes:
    found = text.strip()
    if len(found) < LEAST_CHARACTERS:
        raise SecretError(f"{what} is shorter than {LEAST_CHARACTERS} characters")
    return found.encode()
