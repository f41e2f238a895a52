"""Interpreters that are killed before they begin: launches of one name, as often as is said."""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = """\
#!/bin/sh
case "$*" in
*--launch={launch}*)
    echo once >> {count}
    if [ "$(wc -l < {count})" -le {times} ]; then {act}; fi;;
esac
exec {python} "$@"
"""


def interpreter(folder: Path, launch: str, *, times: int, act: str = "kill -KILL $$") -> str:
    """The path of one below `folder`: `act` is what its shell does to itself."""
    path = folder / f"hit-{times}"
    text = _PROGRAM.format(
        launch=launch, count=folder / f"hits-{times}", times=times, act=act, python=sys.executable
    )
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
