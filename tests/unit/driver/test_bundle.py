"""The bundle of a worker: only needed code, and no packages of the session on its path."""

from __future__ import annotations

import ast
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from busbw.driver.bundle import PACKAGE_FOLDER, Bundle, worker_hash
from busbw.driver.local import LocalWorker
from busbw.driver.transport import WorkerSpec
from busbw.model.launch import LaunchId
from tests.helpers.workers import answer_of, await_ready, kill, worker_spec, write_program

ROOMS = ("collectives", "model", "worker")
SHOWN = "import sys\nprint('path:', sys.path, file=sys.stderr)\n"


def test_the_code_bundle_of_a_worker_holds_only_code_that_workers_may_import(
    bundle: Bundle,
) -> None:
    package = bundle.path / "busbw"
    assert {path.name for path in bundle.path.iterdir()} == {"__main__.py", "busbw", "temporary"}
    names = {"__init__.py", "wire.py", "storage.py", "extensions", *ROOMS}
    assert {path.name for path in package.iterdir()} == names
    extensions = package / "extensions"
    files = {str(path.relative_to(extensions)) for path in extensions.glob("*/*.py")}
    assert "compiled/worker_jax.py" in files and not (extensions / "bisect").exists()
    names = {name.partition("/")[2] for name in files} - {"__init__.py"}
    assert all(name.startswith("worker") for name in names)


@pytest.mark.parametrize(
    ("path", "is_measuring"),
    [
        ("worker/sampling.py", True),
        ("worker/backends/jax/program.py", True),
        ("worker/backends/hlo.py", True),
        ("extensions/stragglers/worker_jax.py", False),
        ("extensions/soak/worker_comparison.py", False),
        ("driver/group.py", False),
    ],
)
def test_the_hash_of_worker_code_changes_only_if_the_code_that_measures_changes(
    package: Path, path: str, is_measuring: bool
) -> None:
    before = worker_hash()
    with (package / path).open("a") as file:
        file.write("# A comment.\n")
    assert (worker_hash() != before) is is_measuring


def test_the_temporary_folder_of_a_worker_is_inside_the_folder_of_its_code_bundle(
    bundle: Bundle,
) -> None:
    shown = "import tempfile\nprint('temporary:', tempfile.gettempdir(), flush=True)\n"
    (bundle.path / "__main__.py").write_text(shown)
    worker = LocalWorker(worker_spec(), bundle, LaunchId.parse("1"))
    answer_of(worker, None, 10)
    kill(worker)
    assert f"temporary: {bundle.temporary_folder}" in (bundle.path / "1.fake.log").read_text()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy busbw without byte code, of which bundles are made."""
    package = tmp_path / "busbw"
    shutil.copytree(PACKAGE_FOLDER, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("busbw.driver.bundle.PACKAGE_FOLDER", package)
    return package


def log_of(begin: WorkerSpec, bundle: Bundle) -> str:
    """Return the log of a worker that was ready."""
    worker = LocalWorker(begin, bundle, LaunchId.parse("1.fake"))
    try:
        await_ready(worker)
    finally:
        kill(worker)
    return (bundle.path / "1.fake.fake.log").read_text()


def path_of(begin: WorkerSpec, bundle: Bundle) -> Any:
    """Return the import path of a worker whose interpreter prints the path."""
    return ast.literal_eval(log_of(begin, bundle).splitlines()[-1].removeprefix("path: "))


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Make a virtual environment whose interpreter shows its path as it starts."""
    home = tmp_path / "foreign"
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # Distributions have a sitecustomize of their own, which comes first.
    (packages / "shown.py").write_text(SHOWN)
    (packages / "shown.pth").write_text("import shown\n")
    return home


def test_a_worker_of_another_interpreter_imports_only_packages_of_that_interpreter(
    bundle: Bundle, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{sysconfig.get_path('purelib')}:{Path(__file__).parents[3]}")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    path = path_of(worker_spec(str(foreign / "bin" / "python")), bundle)
    (packages,) = foreign.glob("lib/python*/site-packages")
    assert str(packages) in path
    assert sysconfig.get_path("purelib") not in path
    assert str(Path(__file__).parents[3]) not in path


def test_a_worker_of_the_interpreter_of_pytest_keeps_the_pythonpath_of_the_user(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHOWN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert str(tmp_path) in path_of(worker_spec(), bundle)


def test_a_worker_adds_huge_pages_to_the_glibc_tunables_of_the_user(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    text = f'#!/bin/sh\necho "$GLIBC_TUNABLES" >&2\nexec {sys.executable} "$@"\n'
    shows = write_program(tmp_path / "python", text)
    tunables = "glibc.malloc.check=0:glibc.malloc.hugetlb=1"
    assert log_of(worker_spec(str(shows)), bundle) == f"{tunables}\n"


def test_a_worker_under_an_old_python_says_that_python_3_11_is_expected(bundle: Bundle) -> None:
    aged = "import runpy, sys; sys.version_info = (3, 10, 14); runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", aged, str(bundle.path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Python {platform.python_version()} is too old: expected 3.11 or newer\n"


@pytest.fixture
def orphan(bundle: Bundle) -> Path:
    """Make the folder of an ended session next to the bundle of a running session."""
    folder = bundle.path.parent / f"busbw-{os.getuid()}.abcdefgh"
    (folder / "busbw").mkdir(parents=True)
    (folder / "busbw" / "wire.py").write_text("")
    return folder


def test_a_link_with_the_name_of_an_orphaned_code_bundle_is_not_followed(
    orphan: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    orphan.rename(victim)
    orphan.symlink_to(victim)
    Bundle().remove()
    assert orphan.is_symlink()
    assert (victim / "busbw" / "wire.py").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_an_orphaned_code_bundle_of_another_user_is_not_removed(orphan: Path) -> None:
    os.chown(orphan, 65534, 65534)
    Bundle().remove()
    assert (orphan / "busbw" / "wire.py").exists()


@pytest.mark.parametrize("when", ["before it is locked", "while it is locked"])
def test_a_new_code_bundle_that_another_session_removes_as_an_orphan_is_made_again(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    real = storage.try_lock_folder
    taken: list[Path] = []

    def late(folder: Path) -> ExitStack | None:
        if bundle.path == folder or taken:
            return real(folder)
        taken.append(folder)
        if when == "before it is locked":
            folder.rmdir()
            return real(folder)
        with storage.lock_folder(folder, 0):
            return real(folder)

    monkeypatch.setattr(storage, "try_lock_folder", late)
    other = Bundle()
    assert [other.path] != taken
    assert (other.path / "__main__.py").exists()
    other.remove()
    assert list(bundle.path.parent.iterdir()) == [bundle.path]


_FEW_DESCRIPTORS = """
import os, resource, sys
from busbw.driver.bundle import PrivateFolder

folder = PrivateFolder()
deep = folder.temporary_folder.joinpath(*"abcdefghijklmnop")
deep.mkdir(parents=True)
(deep / "file").write_text("x")
(folder.temporary_folder / "link").symlink_to(sys.argv[1])
held = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (held + 8, held + 8))
try:
    folder.remove()
except OSError as error:
    print(error.strerror)
print(folder.path.exists())
"""


def test_a_deeply_nested_folder_is_removed_with_few_open_file_descriptors(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").touch()
    done = subprocess.run(
        [sys.executable, "-c", _FEW_DESCRIPTORS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert (tmp_path / "kept").exists()
