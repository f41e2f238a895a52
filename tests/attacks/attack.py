"""An attack: what is done to a repository in which a case is five times slower than accepted.

Whatever it is, the session is not green, and nothing that was stored is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.plugin.folder import Folder

# Made by code of an attack that is run, which none may be.
CANARY = "canary"


@dataclass(frozen=True, kw_only=True)
class Attack:
    """`conftest` stands in perf/, `ini` in pytest.ini; `do` changes what is stored, or the folder.

    `script` is played by the fake back end, in which the case is five times slower unless it says
    otherwise. `codes` are the exit codes that tell of it: 1 failed, 2 interrupted, 3 an error of
    pytest's, 4 a usage error, 5 no tests. `says` is in the output.
    """

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    conftest: str = ""
    ini: Mapping[str, str] = field(default_factory=dict)
    do: Callable[[Folder], None] = lambda folder: None
    script: Mapping[str, object] = field(default_factory=dict)
    codes: tuple[int, ...] = (1, 2, 4, 5)
    says: str = ""


def options(*given: str, codes: tuple[int, ...] = (1, 4, 5), says: str = "") -> Attack:
    """Options alone."""
    return Attack(options=given, codes=codes, says=says)


def usage(*given: str) -> Attack:
    """Options that are a usage error."""
    return Attack(options=given, codes=(4,), says="ERROR: ")


def hook(text: str, codes: tuple[int, ...] = (1, 2, 4, 5)) -> Attack:
    """A conftest.py."""
    return Attack(conftest=f"import pytest\n\n{text}", codes=codes)


def written(folder: Folder, name: str) -> Path:
    """The only file below `name`."""
    (path,) = (one for one in (folder.path / name).rglob("*.json*") if one.is_file())
    return path


def baseline(change: Callable[[str], str]) -> Attack:
    """The file of the baselines, changed as text."""

    def do(folder: Folder) -> None:
        path = written(folder, "baselines")
        path.write_text(change(path.read_text()))

    return Attack(options=("--require-baselines",), do=do, codes=(1, 4))


def edited(change: Callable[[dict[str, Any]], object]) -> Attack:
    """The file of the baselines, changed as JSON."""

    def changed(text: str) -> str:
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return baseline(changed)


def worker(**script: object) -> Attack:
    """A worker that dies, hangs or lies."""
    return Attack(script=script, codes=(1,))
