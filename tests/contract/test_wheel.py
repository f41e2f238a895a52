"""The wheel and the sdist have the package, the tests that measure and the shipped baselines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_SOURCES = shutil.ignore_patterns("__pycache__")
INPUTS = ("busbw", "perf", "baselines", "docs")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources with files that a user may leave in a checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in INPUTS:
        shutil.copytree(ROOT / name, folder / name, ignore=NO_SOURCES)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    ignored = (
        "baselines/amd-epyc-2c/4r/jax.all_reduce.psum.json",
        "baselines/acknowledged.toml",
        "busbw/__pycache__/grid.cpython-311.pyc",
        "perf/__pycache__/test_collectives.cpython-311-pytest-9.2.0.pyc",
        "perf/.pytest_cache/README.md",
        "tests/unit/test_grid.py",
    )
    for name in ignored:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def built(source: Path, target: str, folder: Path) -> Path:
    """Return the sdist or the wheel that is built from `source`."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory"]
    subprocess.run([*command, str(folder)], cwd=source, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


def contents(wheel: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def expected() -> dict[str, bytes]:
    """Return each file of the package, of the tests that measure and of the shipped baselines."""
    sources = {
        "busbw": [path for path in (ROOT / "busbw").rglob("*") if "__pycache__" not in path.parts],
        "perf": list((ROOT / "perf").glob("*.py")),
        "baselines": [
            *(ROOT / "baselines" / "compiled").rglob("*.json"),
            *(ROOT / "baselines").glob("*/*/published.*.json"),
        ],
    }
    below = {"busbw": "busbw", "perf": "busbw/perf", "baselines": "busbw/shipped_baselines"}
    return {
        f"{below[name]}/{path.relative_to(ROOT / name).as_posix()}": path.read_bytes()
        for name, paths in sources.items()
        for path in paths
        if path.is_file()
    }


def test_the_wheel_contains_exactly_the_files_that_busbw_needs_at_run_time(
    wheel: Path,
) -> None:
    assert re.fullmatch(r"busbw-[\d.]+-py3-none-any\.whl", wheel.name)
    files = {name: text for name, text in contents(wheel).items() if ".dist-info/" not in name}
    assert sorted(files) == sorted(expected())
    assert files == expected()
    assert "busbw/py.typed" in files and "busbw/extensions/page/page.html" in files


def test_the_wheel_installs_the_command_busbw_and_no_pytest_plugin(wheel: Path) -> None:
    (text,) = (text for name, text in contents(wheel).items() if name.endswith("entry_points.txt"))
    assert text.decode().split() == ["[console_scripts]", "busbw", "=", "busbw.__main__:main"]


def test_the_wheel_that_is_built_from_the_sdist_equals_the_wheel_of_the_checkout(
    checkout: Path, wheel: Path, tmp_path: Path
) -> None:
    for name in ("sdist", "unpacked", "again"):
        (tmp_path / name).mkdir()
    with tarfile.open(built(checkout, "sdist", tmp_path / "sdist")) as files:
        if hasattr(tarfile, "data_filter"):
            # Not before 3.11.4, which some distributions have; later ones warn without it.
            files.extraction_filter = tarfile.data_filter
        files.extractall(tmp_path / "unpacked")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert contents(built(source, "wheel", tmp_path / "again")) == contents(wheel)


def test_busbw_run_of_the_installed_wheel_measures_in_a_fresh_environment(
    wheel: Path, tmp_path: Path
) -> None:
    """Borrow the packages that busbw needs, but not busbw itself."""
    for command in (
        ["uv", "venv", "--python", sys.executable, "venv"],
        ["uv", "pip", "install", "--offline", "--no-deps", "--python", "venv", str(wheel)],
        ["venv/bin/busbw", "run", "--frameworks=fake", "--payloads=1K", "--launches=1"],
    ):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")},
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "NOTHING_COMPARED: 1 case measured in 1 launch" in done.stdout
    assert "\nbusbw/perf/test_collectives.py s." in done.stdout


def test_no_file_of_the_package_contains_a_path_below_root_or_home() -> None:
    texts = [text.decode() for name, text in expected().items() if not name.endswith(".py")]
    assert not [text for text in texts if re.search(r"/(root|home)/", text)]
