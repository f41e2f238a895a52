"""`busbw run`: pytest in the user's own folder, with the promises that busbw ships."""

from __future__ import annotations

import compileall
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.driver.workers import wait_until
from tests.plugin.conftest import folder, forked, written
from tests.plugin.folder import FAKE, TIMEOUT_S, WITHOUT_CACHE, Folder

__all__ = ["folder", "forked", "written"]

ROOT = Path(__file__).parents[2]
SMALL = FAKE[1:]
BASE = ("--frameworks=fake", "--topology=v5e:2x4", "--payloads=1K", "--compile-cache=none")


@dataclass(frozen=True, kw_only=True)
class Said:
    """How it ended, and what it wrote."""

    code: int
    text: str


@pytest.fixture
def bare(folder: Folder) -> Folder:
    """A folder that has nothing of busbw."""
    shutil.rmtree(folder.path / "perf")
    (folder.path / "conftest.py").unlink()
    (folder.path / "pytest.ini").unlink()
    folder.environment.chdir(folder.path)
    return folder


def run(*options: str, package: Path = ROOT) -> Said:
    """`busbw run` of the busbw below `package`, in the current folder."""
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "run", "-p", "no:hypothesispytest", *options],
        env={**os.environ, "PYTHONPATH": _path(package), "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Said(code=done.returncode, text=done.stdout)


def _path(package: Path) -> str:
    return os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip leaves it, which no test changes."""
    path = tmp_path_factory.mktemp("site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "busbw", path / "busbw", ignore=ignored)
    shutil.copytree(ROOT / "perf", path / "busbw" / "perf", ignore=ignored)
    shutil.copytree(ROOT / "baselines", path / "busbw" / "shipped_baselines")
    compileall.compile_dir(path, quiet=2)
    return path


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_in_an_empty_folder_it_measures_records_and_compares(bare: Folder, installed: Path) -> None:
    before = files(installed)
    first = run(*SMALL, "--update-baselines", package=installed)
    assert first.code == 0, first.text
    assert f"rootdir: {bare.path}\n" in first.text
    assert [path.name for path in bare.baseline_files] == ["fake.all_reduce.fake.json"]
    second = run(*SMALL, "-v", package=installed)
    assert second.code == 0, second.text
    name = "busbw/perf/test_collectives.py::test_collective[fake-default-float32-1M]"
    assert f"{name} PASS" in second.text
    assert "busbw/perf/test_collectives.py::session PASSED" in second.text
    assert files(installed) == before
    third = run(*SMALL, name, "-v", package=installed)
    assert third.code == 0 and f"{name} PASS" in third.text


def test_several_processes_of_pytest_xdist_are_one_error(bare: Folder) -> None:
    (bare.path / "pytest.ini").write_text("[pytest]\naddopts = -n 2\n")
    said = run(*SMALL)
    assert said.code == 4
    assert said.text.count("ERROR") == 1 and "-n0 turns that off" in said.text


@pytest.mark.exhaustive
def test_a_regression_ends_it_with_1_and_what_cannot_be_with_4(bare: Folder) -> None:
    assert run(*SMALL, "--update-baselines").code == 0
    bare.scale_baseline(0.3)
    said = run(*SMALL)
    assert said.code == 1 and "REGRESSED" in said.text
    said = run(*SMALL, "--launches=0")
    assert said.code == 4 and "ERROR: busbw: --launches: '0'" in said.text


@pytest.mark.exhaustive
def test_root_directory_and_settings_are_those_of_the_current_folder(bare: Folder) -> None:
    bare.ini(
        {
            "busbw_frameworks": "fake",
            "busbw_payloads": "2K",
            "busbw_launches": "1",
            "busbw_baselines": "levels",
            "testpaths": "tests",
            "python_files": "check_*.py",
        }
    )
    (bare.path / "levels").mkdir()
    (bare.path / "tests").mkdir()
    (bare.path / "tests" / "conftest.py").write_text("raise RuntimeError('of other tests')\n")
    (bare.path / "conftest.py").write_text("pytest_plugins = ['busbw.plugin']\n")
    (bare.path / "below").mkdir()
    bare.environment.chdir(bare.path / "below")
    said = run()
    assert said.code == 0, said.text
    assert f"rootdir: {bare.path}\nconfigfile: pytest.ini\n" in said.text
    assert "1 payload (2K)" in said.text
    assert f"busbw baselines: {bare.path / 'levels'}" in said.text
    assert "1 passed, 1 without baseline" in said.text
    named = "../busbw/perf/test_collectives.py::test_collective[fake-default-float32-2K]"
    again = run(named, "-v")
    assert again.code == 0 and f"{named} NO_BASELINE" in again.text


@pytest.mark.exhaustive
def test_where_busbw_is_installed_in_the_folder_itself_it_is_the_same(
    bare: Folder, installed: Path
) -> None:
    bare.ini({})
    inside = bare.path / ".venv" / "lib" / "site-packages"
    shutil.copytree(installed, inside)
    (bare.path / ".venv" / "pyvenv.cfg").touch()
    said = run(*SMALL, "--collect-only", "-qq", package=inside)
    assert said.code == 0, said.text
    assert said.text.split() == ["busbw/perf/test_collectives.py:", "2"]


@pytest.mark.exhaustive
def test_tests_that_are_named_are_run_in_place_of_what_is_shipped(folder: Folder) -> None:
    folder.environment.chdir(folder.path)
    said = run("perf/", *SMALL, "-v")
    assert said.code == 0, said.text
    assert "\nperf/test_collectives.py::test_collective[fake" in said.text
    assert "busbw/perf" not in said.text
    (folder.path / "test_theirs.py").write_text("def test_theirs(): pass\n")
    said = run("test_theirs.py")
    assert said.code == 1 and "1 passed" in said.text
    assert said.text.endswith("ERROR: busbw: no test that was run reads a verdict of busbw\n")


@pytest.mark.parametrize("options", [("--version",), ("--help",), ("--", "--", "nowhere.py")])
def test_options_are_pytest_s_own(bare: Folder, options: tuple[str, ...]) -> None:
    said = run(*options)
    wanted = {
        "--version": (0, "pytest "),
        "--help": (0, "--update-baselines"),
        "--": (4, "file or directory not found: "),
    }
    code, text = wanted[options[0]]
    assert said.code == code and text in said.text


def test_ctrl_c_is_pytest_s_own(bare: Folder) -> None:
    bare.script(cases=[{"passes": [2], "then": "hang"}])
    output = bare.path / "output.txt"
    with output.open("w") as out:
        session = subprocess.Popen(
            [sys.executable, "-m", "busbw", "run", *SMALL, *WITHOUT_CACHE, "--launches=3"],
            env={**os.environ, "PYTHONPATH": _path(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        logs = bare.temporary.glob
        assert wait_until(lambda: any("the script" in p.read_text() for p in logs("*/2.fake*.log")))
        session.send_signal(signal.SIGINT)
        assert session.wait(30) == 2
    finally:
        session.kill()
        session.wait()
    assert "busbw: interrupted after" in output.read_text()


@pytest.mark.exhaustive
def test_compiled_baselines_are_one_s_own_first_and_else_those_that_are_shipped(
    bare: Folder, installed: Path
) -> None:
    own, package = bare.path / "baselines" / "compiled", bare.path / "site-packages"
    shutil.copytree(installed, package)
    shipped = package / "busbw" / "shipped_baselines" / "compiled"
    assert run(*BASE, "--update-baselines", package=package).code == 0
    (path,) = own.rglob("fake.*.json")
    there = shipped / path.relative_to(own)
    there.parent.mkdir(parents=True, exist_ok=True)
    path.rename(there)
    before = files(package)
    said = run(*BASE, "--require-baselines", package=package)
    assert said.code == 0 and "PASS" in said.text, said.text
    assert run(*BASE, "--update-baselines=new", package=package).code == 0
    assert not list(own.rglob("*.json"))
    said = run(*BASE, "--update-baselines=all", package=package)
    assert said.code == 0 and path.exists(), said.text
    assert files(package) == before
    path.write_text(path.read_text().replace("FakeRing", "FakeTree"))
    said = run(*BASE, package=package)
    assert said.code == 1 and "CHANGED" in said.text, said.text


@pytest.mark.exhaustive
def test_pyargs_reads_the_same_promises(bare: Folder, installed: Path) -> None:
    (bare.path / "conftest.py").write_text("pytest_plugins = ['busbw.plugin']\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "busbw.perf", *SMALL],
        env={**os.environ, "PYTHONPATH": _path(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 without baseline" in done.stdout
