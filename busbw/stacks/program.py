"""Programs that are asked or that build: an interpreter, pip, uv. Each ends in time, or fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from busbw import wire

from .lock import StackError

_SHOWN_LINES = 4


def output(command: Sequence[str], *, problem: str, timeout_s: float) -> str:
    """Raises StackError, which begins with `problem`, with the last words of one that failed."""
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"{problem}: it did not finish within {timeout_s:g} s") from error
    except OSError as error:
        raise StackError(f"{problem}: {error}") from error
    if done.returncode != 0:
        raise StackError(f"{problem}: {wire.printable(_last_words(done.stderr))}")
    return done.stdout


def _last_words(text: str) -> str:
    """The last lines as one; of a traceback the last alone."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = 1 if any(line.startswith("Traceback ") for line in lines) else _SHOWN_LINES
    return "; ".join(lines[-shown:]) or "no word of why"
