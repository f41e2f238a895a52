"""`busbw run`: pytest in the user's own folder."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.session_folder import FAKE, TIMEOUT_S, Folder
from tests.helpers.sweep import sweep

ROOT = Path(__file__).parents[3]
SMALL = FAKE[1:]
BASE = ("--frameworks=fake", "--topology=v5e:2x4", "--payloads=1K", "--compile-cache=none")


@dataclass(frozen=True, kw_only=True)
class Output:
    """The exit code and the output of a command."""

    code: int
    text: str


@pytest.fixture
def empty_folder(folder: Folder) -> Folder:
    """Return a folder that contains no file of busbw."""
    shutil.rmtree(folder.path / "perf")
    (folder.path / "conftest.py").unlink()
    (folder.path / "pytest.ini").unlink()
    folder.environment.chdir(folder.path)
    return folder


def run(*options: str, package: Path = ROOT) -> Output:
    """Run `busbw run` of the busbw below `package` in the current folder."""
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "run", "-p", "no:hypothesispytest", *options],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]),
            "PYTHONWARNINGS": "error",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Output(code=done.returncode, text=done.stdout)


@pytest.fixture(scope="module")
def installed_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package as pip installs it, which no test changes."""
    path = tmp_path_factory.mktemp("site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "busbw", path / "busbw", ignore=ignored)
    shutil.copytree(ROOT / "perf", path / "busbw" / "perf", ignore=ignored)
    shutil.copytree(ROOT / "baselines", path / "busbw" / "shipped_baselines")
    compileall.compile_dir(path, quiet=2)
    return path


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_busbw_run_in_an_empty_folder_stores_times_and_then_compares_with_these_times(
    empty_folder: Folder, installed_package: Path
) -> None:
    before = files(installed_package)
    first = run(*SMALL, "--update-baselines", package=installed_package)
    assert first.code == 0, first.text
    assert f"rootdir: {empty_folder.path}\n" in first.text
    assert [path.name for path in empty_folder.baseline_files] == ["fake.all_reduce.fake.json"]
    second = run(*SMALL, "-v", package=installed_package)
    assert second.code == 0, second.text
    name = "busbw/perf/test_collectives.py::test_collective[fake-default-float32-1M]"
    assert f"{name} PASS" in second.text
    assert "busbw/perf/test_collectives.py::session PASS" in second.text
    assert files(installed_package) == before
    third = run(*SMALL, name, "-v", package=installed_package)
    assert third.code == 0 and f"{name} PASS" in third.text


def test_busbw_run_with_processes_of_pytest_xdist_prints_a_single_error(
    empty_folder: Folder,
) -> None:
    (empty_folder.path / "pytest.ini").write_text("[pytest]\naddopts = -n 2\n")
    answer = run(*SMALL)
    assert answer.code == 4
    assert answer.text.count("ERROR") == 1 and "expected -n0" in answer.text


@pytest.mark.exhaustive
def test_busbw_run_uses_the_root_directory_and_the_settings_of_the_current_folder(
    empty_folder: Folder,
) -> None:
    empty_folder.ini(
        {
            "busbw_frameworks": "fake",
            "busbw_payloads": "2K",
            "busbw_launches": "1",
            "busbw_baselines": "levels",
            "testpaths": "tests",
            "python_files": "check_*.py",
        }
    )
    (empty_folder.path / "levels").mkdir()
    (empty_folder.path / "tests").mkdir()
    (empty_folder.path / "tests" / "conftest.py").write_text(
        "raise RuntimeError('of other tests')\n"
    )
    (empty_folder.path / "conftest.py").write_text("pytest_plugins = ['busbw.plugin']\n")
    (empty_folder.path / "below").mkdir()
    empty_folder.environment.chdir(empty_folder.path / "below")
    answer = run()
    assert answer.code == 0, answer.text
    assert f"rootdir: {empty_folder.path}\nconfigfile: pytest.ini\n" in answer.text
    assert f"busbw baselines: {empty_folder.path / 'levels'}" in answer.text
    assert "= 1 without baseline in " in answer.text
    named = "../busbw/perf/test_collectives.py::test_collective[fake-default-float32-2K]"
    again = run(named, "-v")
    assert again.code == 0 and f"{named} NO_BASELINE" in again.text


@pytest.mark.exhaustive
def test_busbw_run_with_named_tests_does_not_run_the_shipped_tests(
    folder: Folder,
) -> None:
    folder.environment.chdir(folder.path)
    answer = run("perf/", *SMALL, "-v")
    assert answer.code == 0, answer.text
    assert "\nperf/test_collectives.py::test_collective[fake" in answer.text
    assert "busbw/perf" not in answer.text
    (folder.path / "test_theirs.py").write_text("def test_theirs(): pass\n")
    answer = run("test_theirs.py")
    assert answer.code == 1 and "1 passed" in answer.text
    assert answer.text.endswith("ERROR: busbw: 0 cases collected, and no test read a verdict\n")


@pytest.mark.parametrize("options", sweep([["--version"], ["--", "--", "nowhere.py"], ["--help"]]))
def test_busbw_run_accepts_the_options_of_pytest(empty_folder: Folder, options: list[str]) -> None:
    answer = run(*options)
    expected = {
        "--version": (0, "pytest "),
        "--help": (0, "--update-baselines"),
        "--": (4, "file or directory not found: "),
    }
    code, text = expected[options[0]]
    assert answer.code == code and text in answer.text


@pytest.mark.extension("cluster")
@pytest.mark.extension("compiled")
def test_the_help_of_busbw_run_shows_the_options_of_busbw_before_the_options_of_pytest(
    pytester: pytest.Pytester,
) -> None:
    plugins = ("-p", "busbw.plugin", "-p", "busbw.plugin.shipped_tests")
    text = pytester.runpytest(*plugins, "--help").stdout.str()
    flags = ("--device=", "--hosts=", "--against=", "--topology=", "-k EXPRESSION", "--durations=")
    places = [text.index(f"\n  {flag}") for flag in flags]
    assert places == sorted(places)


@pytest.mark.exhaustive
@pytest.mark.extension("compiled")
def test_compiled_baselines_of_the_user_override_compiled_baselines_of_the_package(
    empty_folder: Folder, installed_package: Path
) -> None:
    baselines, package = (
        empty_folder.path / "baselines" / "compiled",
        empty_folder.path / "site-packages",
    )
    shutil.copytree(installed_package, package)
    shipped = package / "busbw" / "shipped_baselines" / "compiled"
    assert run(*BASE, "--update-baselines", package=package).code == 0
    (path,) = baselines.rglob("fake.*.json")
    target = shipped / path.relative_to(baselines)
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    before = files(package)
    answer = run(*BASE, "--require-baselines", package=package)
    assert answer.code == 0 and "PASS" in answer.text, answer.text
    assert run(*BASE, "--update-baselines=new", package=package).code == 0
    assert not list(baselines.rglob("*.json"))
    answer = run(*BASE, "--update-baselines=all", package=package)
    assert answer.code == 0 and path.exists(), answer.text
    assert files(package) == before
    path.write_text(path.read_text().replace("FakeRing", "FakeTree"))
    answer = run(*BASE, package=package)
    assert answer.code == 1 and "CHANGED" in answer.text, answer.text
