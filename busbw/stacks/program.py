"""Programs that are asked or that build: an interpreter, pip, uv. Each ends in time, or fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from .lock import StackError

_SHOWN_LINES = 4


def output(command: Sequence[str], *, problem: str, timeout_s: float) -> str:
    """What `command` prints.

    Raises StackError, which begins with `problem` and has the last words of one that failed.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{problem}: it did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise StackError(f"{problem}: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()[-_SHOWN_LINES:] or ["no word of why"]
        raise StackError(f"{problem}: {'; '.join(line.strip() for line in lines)}")
    return done.stdout
