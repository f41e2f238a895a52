"""`busbw bisect`: releases of a package, one of which changes the fake framework."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import ROOT, Answer, command
from tests.helpers.wheels import use_index, wheel

pytestmark = [pytest.mark.sessions, pytest.mark.workers]

PACKAGE = "busbw-made-up"
VERSIONS = [f"1.{number}" for number in range(9)]
SLOW = {"latency_s": 3e-3}


class BisectAnswer(Answer):
    """The answer of a bisection."""

    @property
    def sentence(self) -> str:
        (sentence,) = [line for line in self.out.splitlines() if line.startswith("first ")]
        return sentence


class Bisected:
    """A bisection of nine releases."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self.folder, self._environment = folder, environment
        for version in VERSIONS:
            wheel(folder / "index", PACKAGE, version)
        use_index(environment, folder / "index")
        environment.setenv("UV_CACHE_DIR", str(folder / "uv"))
        environment.setenv("XDG_CACHE_HOME", str(folder / "cache"))

    def script(self, first: str, worse: dict[str, Any], **others: Any) -> None:
        """Make the releases from `first` on `worse`."""
        bad = VERSIONS[VERSIONS.index(first) :]
        releases = {PACKAGE: {version: worse for version in bad} | others.pop("releases", {})}
        self._environment.setenv(
            "BUSBW_FAKE", json.dumps({"latency_s": 1e-3, "releases": releases, **others})
        )

    @property
    def progress_folder(self) -> Path:
        """The folder with the environments and the progress."""
        (folder,) = (self.folder / "cache" / "busbw" / "bisect").iterdir()
        return folder

    def words(self, *options: str, good: str = "1.0", bad: str = "1.8") -> list[str]:
        return [
            *("bisect", PACKAGE, f"--good={good}", f"--bad={bad}", "--framework=fake", *options),
            *("--", "--payloads=64K", "--launches=2"),
        ]

    def run(self, *options: str, **ends: str) -> BisectAnswer:
        ran = command(*self.words(*options, **ends))
        return BisectAnswer(code=ran.code, out=ran.out, err=ran.err)


@pytest.fixture
def bisected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bisected:
    return Bisected(tmp_path, monkeypatch)


@pytest.mark.exhaustive
def test_bisect_names_the_first_slow_release_and_keeps_only_two_environments(
    bisected: Bisected,
) -> None:
    bisected.script("1.5", SLOW)
    answer = bisected.run()
    assert answer.code == 0, answer.err
    sentence = (
        f"first bad release: {PACKAGE} 1.5 (slow); last good release: 1.4; 5 of 9 releases tested, "
    )
    assert answer.sentence.startswith(sentence)
    again = answer.out.splitlines()[-1]
    options = "--frameworks=fake --payloads=64K --launches=2"
    assert again.startswith(f"again: busbw run {options} --python=fake=")
    for release in ("the good release, busbw-made-up 1.0", f"{PACKAGE} 1.4", f"{PACKAGE} 1.5"):
        assert re.search(rf"^busbw: {release}: session 1: \d+\.\d s$", answer.err, re.MULTILINE)
    # Each environment takes up to a gigabyte: those of the releases in the answer are left.
    assert {path.name for path in bisected.progress_folder.glob("1.*")} == {"1.4", "1.5"}
    folder = f"environments and progress are kept in {bisected.progress_folder}"
    assert f"busbw: 0 releases tested so far; {folder}" in answer.err
    progress = json.loads((bisected.progress_folder / "progress.json").read_text())
    assert progress["document"] == "busbw bisect 3"
    assert [test["release"] for test in progress["tested"]] == ["1.4", "1.6", "1.5"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("good", "bad", "releases"),
    [("1.0", "1.1", {}), ("1.1", "1.0", {"1.0": SLOW, "1.1": {}})],
)
def test_the_command_that_bisect_prints_shows_the_change_as_a_regressed_case(
    bisected: Bisected, good: str, bad: str, releases: dict[str, Any]
) -> None:
    bisected.script("1.1", SLOW, releases=releases)
    answer = bisected.run(good=good, bad=bad)
    assert answer.code == 0, answer.err
    words = shlex.split(answer.out.splitlines()[-1])
    assert words[:2] == ["again:", "busbw"]
    session = command(*words[2:])
    assert session.code == 1, session.err
    assert "REGRESSED" in session.out


@pytest.mark.exhaustive
def test_bisect_does_not_measure_a_release_again_that_an_earlier_run_tested(
    bisected: Bisected,
) -> None:
    bisected.script("1.5", SLOW)
    first = bisected.run()
    bisected.script("1.2", SLOW)
    again = bisected.run()
    assert again.out == first.out
    assert "busbw: 3 releases tested so far; " in again.err
    (bisected.progress_folder / "progress.json").write_text("{")
    bisected.run().refuses("progress.json: 1:2: not JSON")


@pytest.mark.exhaustive
def test_bisect_measures_another_release_in_place_of_a_release_that_does_not_start(
    bisected: Bisected,
) -> None:
    bisected.script("1.5", SLOW, releases={"1.4": {"probe": "exit"}})
    assert bisected.run().sentence.startswith(
        f"first bad release: {PACKAGE} 1.5 or one of 1.4, which cannot be tested (slow); last good "
        "release: 1.3; "
    )


@pytest.mark.exhaustive
def test_bisect_names_the_first_release_with_a_wrong_result(bisected: Bisected) -> None:
    bisected.script("1.7", {"cases": [{"then": "wrong_result"}]})
    assert bisected.run().sentence.startswith(
        f"first bad release: {PACKAGE} 1.7 (wrong result); last good release: 1.6; "
    )


@pytest.mark.exhaustive
def test_bisect_names_the_first_release_that_is_no_longer_slow_if_the_good_release_is_later(
    bisected: Bisected,
) -> None:
    bisected.script("1.0", SLOW, releases={version: {} for version in VERSIONS[3:]})
    assert bisected.run(good="1.8", bad="1.0").sentence.startswith(
        f"first good release: {PACKAGE} 1.3; last bad release: 1.2 (slow); "
    )


@pytest.mark.exhaustive
def test_bisect_exits_with_code_1_if_the_good_and_the_bad_release_are_equally_fast(
    bisected: Bisected,
) -> None:
    bisected.script("1.0", {})
    answer = bisected.run()
    assert answer.code == 1
    assert answer.out == f"{PACKAGE} 1.8 does not differ from 1.0 beyond the noise\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_bisection_leaves_no_temporary_files_and_can_be_continued(
    bisected: Bisected, number: signal.Signals
) -> None:
    bisected.script("1.1", SLOW)
    words = [sys.executable, "-m", "busbw", *bisected.words(bad="1.2")]
    (temporary := bisected.folder / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    for step in (b"the good release", b"the bad release"):
        process = subprocess.Popen(
            words,
            cwd=bisected.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stderr is not None
        assert any(step in line for line in process.stderr)
        time.sleep(1.0)
        os.killpg(process.pid, number)
        process.communicate(timeout=30)
        if number is not signal.SIGKILL:
            assert not [*temporary.iterdir(), *bisected.folder.rglob("*.new")]
    answer = bisected.run(bad="1.2")
    sentence = f"first bad release: {PACKAGE} 1.1 (slow); last good release: 1.0; "
    assert answer.sentence.startswith(sentence)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--bad=1.0", "expected two different releases, --good=VERSION and --bad=VERSION"),
        ("--framework=fak", "argument --framework: invalid choice"),
    ],
)
def test_invalid_options_of_bisect_are_usage_errors(
    bisected: Bisected, option: str, sentence: str
) -> None:
    bisected.run(option).refuses(sentence)


@pytest.mark.exhaustive
def test_the_option_flags_of_bisect_lists_flags_that_have_no_effect(
    tmp_path: Path,
) -> None:
    (recipe := tmp_path / "recipe").write_text("--xla_a=1\n--xla_b=2\n")
    (path := tmp_path / "empty").write_text("")
    answer = command("bisect", f"--flags={recipe}", "--framework=fake", "--", "--payloads=64K")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        "--xla_a=1 --xla_b=2: nothing",
        "--xla_a=1: nothing",
        "--xla_b=2: nothing",
    ]
    command("bisect", f"--flags={path}").refuses("expected flags such as")
    command("bisect", "jaxlib", f"--flags={recipe}").refuses("--flags: not allowed with argument")
    command("bisect", f"--flags={recipe}", "--good=1").refuses("leave out --good and --bad")
    command("bisect", "jaxlib").refuses("expected two different releases, --good=VERSION")


def test_bisect_gives_an_error_if_the_package_index_lacks_the_package(bisected: Bisected) -> None:
    answer = command("bisect", "no-such-package", "--good=1", "--bad=2")
    assert answer.code == 1
    assert "busbw bisect: uv: error: No solution found" in answer.err
