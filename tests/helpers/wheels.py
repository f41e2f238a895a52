"""Small wheels, an index of them, and interpreters that they are installed in."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.stacks import build, interpreter
from busbw.stacks.lock import Lock


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
            packages=build.packages_of(found.stack(["framework"]), self.python),
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


def wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """A wheel of one module, or of `files`, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    module, about = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Provides-Extra: {extra}" for extra in extras]
    metadata += [f"Requires-Dist: {one}" for one in requires]
    contents = {
        **(files or {f"{module}.py": f"VERSION = {version!r}\n"}),
        f"{about}/METADATA": "\n".join(metadata) + "\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_hash(text)},{len(text)}\n" for path, text in contents.items())
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(zipfile.ZipInfo(member), text)
        archive.writestr(zipfile.ZipInfo(f"{about}/RECORD"), f"{record}{about}/RECORD,,\n")
    return path


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def venv(folder: Path, *wheels: Path) -> str:
    """One of its own, with `wheels`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    if wheels:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
        # By name, and not as files, of which pip would keep the paths.
        pip += [f"--find-links={one.parent}" for one in wheels]
        pip += ["==".join(one.name.split("-")[:2]) for one in wheels]
        subprocess.run(pip, check=True)
    return python
