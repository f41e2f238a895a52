"""An index of small wheels, and an interpreter with some of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.stacks import interpreter, wheels
from busbw.stacks.lock import Lock

from .small import venv, wheel


@dataclass(frozen=True)
class Machine:
    """An interpreter with a framework, the index it is from, and a folder for what is kept."""

    python: str
    index: Path
    cache: Path

    def lock(self) -> Lock:
        """Of what the interpreter has."""
        found = interpreter.installed(self.python)
        return Lock(
            framework="framework",
            python=found.python,
            platform=found.platform,
            date="2026-01-31",
            packages=wheels.packages_of(found.stack(["framework"]), self.python),
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A framework of two packages."""
    index = tmp_path / "index"
    both = (
        wheel(index, "framework", "1.0", requires=["core>=2"]),
        wheel(index, "core", "2.1"),
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return Machine(python=venv(tmp_path / "venv", *both), index=index, cache=tmp_path / "cache")
