"""Small wheels, an index of them, and interpreters that they are installed in."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.extensions.stacks import reference
from busbw.session.options import LockedStack


@dataclass(frozen=True)
class Machine:
    """An interpreter with a framework, the index it is from, and folders for locks and stacks."""

    python: str
    index: Path
    baselines: Path
    cache: Path

    @property
    def path(self) -> Path:
        """Where the lock is."""
        return self.baselines / "pylock.fake.toml"

    def lock(self, date: str = "2026-01-31", *, replace: bool = True) -> str:
        """Lock what the interpreter has."""
        return reference.lock_stack(
            self.baselines, "fake", self.python, date, replaces_lock=replace
        )

    def build(self) -> LockedStack:
        """Build what is locked."""
        return reference.build_stack(
            self.baselines, "fake", self.python, self.cache, lambda text: None
        )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a framework of two packages in an index and in an environment."""
    folder = tmp_path_factory.mktemp("installed")
    framework = wheel(folder / "index", "busbw-fake", "1.0", requires=["core>=2"])
    venv(folder / "venv", framework, wheel(folder / "index", "core", "2.1"))
    return folder


@pytest.fixture
def machine(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a copy of the environment and of the index for one test."""
    shutil.copytree(installed, tmp_path, symlinks=True, dirs_exist_ok=True)
    use_index(monkeypatch, tmp_path / "index")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    (baselines := tmp_path / "baselines").mkdir()
    return Machine(
        python=str(tmp_path / "venv" / "bin" / "python"),
        index=tmp_path / "index",
        baselines=baselines,
        cache=tmp_path / "cache",
    )


def use_index(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    """Let uv install from the folder `index` alone."""
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(index))


def wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel of one module, or of `files`, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    module, about = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Provides-Extra: {extra}" for extra in extras]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
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
    """Make an environment with `wheels`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    if wheels:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
        # By name, and not as files, of which pip would keep the paths.
        pip += [f"--find-links={path.parent}" for path in wheels]
        pip += ["==".join(path.name.split("-")[:2]) for path in wheels]
        subprocess.run(pip, check=True)
    return python
