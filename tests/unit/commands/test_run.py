"""`busbw run`: which part a process has, and pytest in the user's own folder."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from busbw.commands.ranks import Options, Part, RankError, options_of, part_of, port_of
from busbw.hosts.launchers import Finder, Launched
from tests.helpers.session_fixtures import folder, forked, written
from tests.helpers.session_folder import FAKE, TIMEOUT_S, Folder
from tests.helpers.sweep import sweep

ADDRESS = "--session=10.0.0.1:4000"


def options(*words: str) -> Options:
    return options_of(words)


def by(found: Launched | None, name: str = "slurm") -> Mapping[str, Finder]:
    """Launchers of which one has started this process, or none."""
    return {name: lambda environment: found}


def two(rank: int = 1, **fields: object) -> Launched:
    """What Slurm says of one of two processes."""
    given = {"launcher": "Slurm", "rank": rank, "count": 2, "job": "7.0", "host": "n1", **fields}
    return Launched(**given)  # type: ignore[arg-type]


ALONE = two(0, count=1, one_host=True)
POD = two(1, launcher="Kubernetes", count=None, host="", unnamed="nobody says where rank 0 is")


def refused(found: Launched | None, *words: str, name: str = "slurm") -> str:
    """The usage error of these options; pytest's exit code is on every one."""
    with pytest.raises(RankError) as error:
        part_of(options_of(words), {}, by(found, name))
    assert error.value.exit_code == 4
    return str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        ("--rank=1", "--launcher=none", "perf/", "-x", "--agents=2"),
        ("--rank", "1", "perf/", "--launcher", "none", "-x", "--agents=2"),
    ],
)
def test_its_own_options_are_taken_out_in_both_forms(words: tuple[str, ...]) -> None:
    found = options(*words)
    assert found.own == {"--rank": "1", "--launcher": "none"}
    assert found.passed == ("perf/", "-x", "--agents=2")


def test_options_of_pytest_are_read_in_both_forms_and_the_last_one_holds() -> None:
    found = options_of(["--agents", "2", "--agents=3", "perf/"], "--processes=8 --agents=9")
    assert (found.value("--agents"), found.value("--processes")) == ("3", "8")
    assert found.value("--device") == ""
    assert found.passed == ("--agents", "2", "--agents=3", "perf/")


def test_what_follows_two_dashes_is_pytest_s() -> None:
    found = options("-x", "--", "--rank=1", "--agents=2", "--help")
    assert (found.own, found.value("--agents"), found.are_shown) == ({}, "", False)
    assert found.passed == ("-x", "--", "--rank=1", "--agents=2", "--help")


def test_an_option_without_a_value_is_refused() -> None:
    for words in (["--rank"], ["--rank="]):
        with pytest.raises(RankError, match="--rank: there is no value"):
            options_of(words)


def test_defaults_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(RankError, match="PYTEST_ADDOPTS: No closing quotation"):
        options_of([], "-k 'one")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["perf/"], None),
        (["--agents=2", "--listen=10.0.0.1:0"], None),
        (["--launcher=none"], two()),
        # A launcher that started one process is none.
        ([], ALONE),
        (["--agents=1"], ALONE),
        (["--agents=local"], ALONE),
        # Help is shown by every rank.
        *(([word, "--rank=1"], two()) for word in ("-h", "--help", "-V", "--version")),
    ],
)
def test_a_process_is_alone(words: list[str], found: Launched | None) -> None:
    assert part_of(options(*words), {}, by(found)) is None


BY_SLURM = Part(rank=1, count=2, host="n1", port=port_of("7.0"), spans_hosts=True)
BY_ADDRESS = Part(rank=1, count=2, host="10.0.0.1", port=4000, spans_hosts=True)


@pytest.mark.parametrize(
    ("words", "found", "wanted"),
    [
        ([], two(), BY_SLURM),
        (["--agents=2", "--launcher=slurm"], two(), BY_SLURM),
        ([ADDRESS], two(host="", unnamed="it is elsewhere"), BY_ADDRESS),
        (["--agents=2", ADDRESS], POD, BY_ADDRESS),
        # Options say the part, whatever the launcher says.
        (
            ["--rank=3", "--agents=4", ADDRESS],
            two(),
            Part(rank=3, count=4, host="10.0.0.1", port=4000),
        ),
        (
            ["--rank=0", "--agents=1", "--session=[::1]:4000"],
            None,
            Part(rank=0, count=1, host="::1", port=4000),
        ),
    ],
)
def test_the_part_is_what_launcher_and_options_say(
    words: list[str], found: Launched | None, wanted: Part
) -> None:
    assert part_of(options(*words), {}, by(found)) == wanted


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ((), "missing are --agents=N and --session=HOST:PORT"),
        (("--agents=2",), "missing is --session=HOST:PORT"),
        ((ADDRESS,), "missing is --agents=N"),
    ],
)
def test_what_a_pod_is_not_told_is_named(words: tuple[str, ...], missing: str) -> None:
    why = refused(POD, *words, name="kubernetes")
    assert "Kubernetes started this process as rank 1 and says no more" in why
    assert missing in why and why.endswith("--launcher=none for a session without this launcher")


@pytest.mark.parametrize("agents", ["3", "1", "local", "x"])
def test_another_count_than_the_launcher_s_names_both(agents: str) -> None:
    why = refused(two(), f"--agents={agents}")
    assert why.startswith(f"--agents={agents}: Slurm started 2 processes; accepted are --agents=2")
    assert "--launcher=none" in why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rank=x",), "--rank: 'x'; accepted is a whole number from 0 on"),
        (("--rank=0",), "--rank=0: accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=0", "--agents=2"), "accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=0", ADDRESS), "accepted with --agents=N and --session=HOST:PORT"),
        (("--rank=2", "--agents=2", ADDRESS), "rank 2: of 2 agents ranks are below 2"),
        (("--rank=0", "--agents=local", ADDRESS), "--agents: 'local'; accepted is a whole number"),
        (("--rank=0", "--agents=2", "--session=n1"), "--session: 'n1'; accepted is HOST:PORT"),
        (("--rank=0", "--agents=2", "--session=n1:0"), "--session: 'n1:0'; accepted is HOST:PORT"),
        (("--rank=0", "--agents=2", "--session=:9"), "--session: expected HOST:PORT, got ':9'"),
        (("--rank=0", "--agents=2", ADDRESS, "--listen=n1:9"), "--listen: accepted are --session="),
        ((ADDRESS,), "--session: no launcher has started this process; accepted with --rank=I"),
        (("--launcher=slrm",), "--launcher: expected one of "),
        (("--launcher=slurm",), "--launcher=slurm: it has not started this process"),
    ],
)
def test_options_that_do_not_fit_say_what_is_accepted(words: tuple[str, ...], why: str) -> None:
    assert why in refused(None, *words)


@pytest.mark.parametrize(
    ("found", "words", "why"),
    [
        (ALONE, ["--agents=2"], "--agents=2: Slurm started 1 process; "),
        (ALONE, [ADDRESS], "--session: Slurm started 1 process; accepted with"),
        (
            two(host="", unnamed="rank 0 is elsewhere"),
            [],
            "rank 0 is elsewhere; accepted is --session=HOST:PORT, an address of",
        ),
    ],
)
def test_what_does_not_fit_a_launcher_is_refused(
    found: Launched, words: list[str], why: str
) -> None:
    assert refused(found, *words).startswith(why)


@pytest.mark.parametrize("words", [("--device=cpu",), ("--topology=v5e:2x4",)])
def test_a_host_of_a_slice_measures_other_devices_by_itself(words: tuple[str, ...]) -> None:
    assert part_of(options(*words), {}, by(two(), "tpu")) is None
    assert part_of(options(*words, "--launcher=tpu"), {}, by(two(), "tpu")) is not None
    assert part_of(options("--device=tpu"), {}, by(two(), "tpu")) is not None


def test_a_port_is_the_job_s_and_no_other_program_is_given_it() -> None:
    ports = [port_of(f"{job}.0") for job in range(200)]
    assert ports == [port_of(f"{job}.0") for job in range(200)]
    assert all(61000 <= port <= 65535 for port in ports)
    assert len(set(ports)) > 150


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_wait_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(RankError, match="accepted is a number of seconds above 0"):
        _ = options(f"--agents-wait={text}").wait_s
    assert options("--agents-wait=1.5").wait_s == 1.5
    assert options().wait_s == 60


__all__ = ["folder", "forked", "written"]

ROOT = Path(__file__).parents[3]
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
    assert "busbw/perf/test_collectives.py::session FINE" in second.text
    assert files(installed) == before
    third = run(*SMALL, name, "-v", package=installed)
    assert third.code == 0 and f"{name} PASS" in third.text


def test_several_processes_of_pytest_xdist_are_one_error(bare: Folder) -> None:
    (bare.path / "pytest.ini").write_text("[pytest]\naddopts = -n 2\n")
    said = run(*SMALL)
    assert said.code == 4
    assert said.text.count("ERROR") == 1 and "-n0 turns that off" in said.text


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
    assert "= 1 without baseline in " in said.text
    named = "../busbw/perf/test_collectives.py::test_collective[fake-default-float32-2K]"
    again = run(named, "-v")
    assert again.code == 0 and f"{named} NO_BASELINE" in again.text


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


@pytest.mark.parametrize("options", sweep([["--version"], ["--", "--", "nowhere.py"], ["--help"]]))
def test_options_are_pytest_s_own(bare: Folder, options: list[str]) -> None:
    said = run(*options)
    wanted = {
        "--version": (0, "pytest "),
        "--help": (0, "--update-baselines"),
        "--": (4, "file or directory not found: "),
    }
    code, text = wanted[options[0]]
    assert said.code == code and text in said.text


def test_help_shows_the_options_of_busbw_before_those_of_pytest(pytester: pytest.Pytester) -> None:
    plugins = ("-p", "busbw.plugin", "-p", "busbw.plugin.promises")
    text = pytester.runpytest(*plugins, "--help").stdout.str()
    flags = ("--device=", "--against=", "--hosts=", "--topology=", "-k EXPRESSION", "--durations=")
    places = [text.index(f"\n  {flag}") for flag in flags]
    assert places == sorted(places)


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
