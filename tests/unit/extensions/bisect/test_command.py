"""`busbw bisect`: releases of a package, one of which makes the fake framework worse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from busbw.extensions.bisect.state import DOCUMENT
from busbw.worker.backends.fake.backend import VARIABLE
from tests.helpers import package_index as index
from tests.helpers.command_line import ROOT, Answer, command
from tests.helpers.package_index import PACKAGE
from tests.helpers.wheels import use_index

pytestmark = [pytest.mark.sessions, pytest.mark.workers]

VERSIONS = [f"1.{number}" for number in range(9)]
SLOW = {"latency_s": 3e-3}


class Found(Answer):
    """What a bisection said."""

    @property
    def sentence(self) -> str:
        """The answer; the line after it shows the step again."""
        (found,) = [line for line in self.out.splitlines() if line.startswith("first ")]
        return found


class Bisected:
    """A row of releases; those from `first` on do what `worse` says."""

    def __init__(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self.folder, self._environment = folder, environment
        use_index(environment, index.written(folder / "index", VERSIONS))
        environment.setenv("UV_CACHE_DIR", str(folder / "uv"))
        self.state = folder / "state.json"

    def does(self, first: str, worse: dict[str, Any], **others: Any) -> None:
        bad = VERSIONS[VERSIONS.index(first) :]
        releases = {PACKAGE: {version: worse for version in bad} | others.pop("releases", {})}
        self._environment.setenv(
            VARIABLE, json.dumps({"latency_s": 1e-3, "releases": releases, **others})
        )

    def words(self, *options: str, good: str = "1.0", bad: str = "1.8") -> list[str]:
        return [
            *("bisect", PACKAGE, f"--good={good}", f"--bad={bad}", "--framework=fake"),
            *(f"--stack-cache={self.folder}/cache", f"--state={self.state}", *options),
            *("--", "--payloads=64K", "--launches=2"),
        ]

    def finds(self, *options: str, **ends: str) -> Found:
        ran = command(*self.words(*options, **ends))
        return Found(code=ran.code, out=ran.out, err=ran.err)


@pytest.fixture
def bisected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bisected:
    return Bisected(tmp_path, monkeypatch)


@pytest.mark.exhaustive
def test_of_three_releases_the_second_one_did_it(bisected: Bisected) -> None:
    bisected.does("1.1", SLOW)
    found = bisected.finds(bad="1.2")
    assert found.code == 0, found.err
    assert found.sentence.startswith(
        f"first slow release: {PACKAGE} 1.1; 1.0 is the last good one; 3 of 3 releases tried, "
    )


@pytest.mark.exhaustive
def test_the_first_slow_release_is_found(bisected: Bisected) -> None:
    bisected.does("1.5", SLOW)
    found = bisected.finds()
    assert found.code == 0, found.err
    said = f"first slow release: {PACKAGE} 1.5; 1.4 is the last good one; 5 of 9 releases tried, "
    assert found.sentence.startswith(said)
    again = found.out.splitlines()[-1]
    options = "--frameworks=fake --payloads=64K --launches=2"
    assert again.startswith(f"again: busbw run {options} --python=fake=")
    # Each environment takes up to a gigabyte: those that the answer names are left.
    releases = bisected.folder / "cache" / "releases"
    assert {path.name.split("-")[3] for path in releases.iterdir()} == {"1.4", "1.5"}
    assert "left on disk: 2 environments (" in found.err
    assert f"in {releases}, and what uv downloaded, in its own cache: uv cache clean" in found.err
    kept = json.loads(bisected.state.read_text())
    assert kept["document"] == DOCUMENT
    assert kept["answer"].startswith(said)
    assert [one["release"] for one in kept["tried"]] == ["1.4", "1.6", "1.5"]


@pytest.mark.exhaustive
def test_what_is_known_is_asked_no_more(bisected: Bisected) -> None:
    bisected.does("1.5", SLOW)
    first = bisected.finds()
    bisected.does("1.2", SLOW)
    again = bisected.finds()
    assert again.out == first.out
    assert "goes on with 3 steps of" in again.err


@pytest.mark.exhaustive
def test_a_release_that_does_not_start_is_stepped_around(bisected: Bisected) -> None:
    bisected.does("1.5", SLOW, releases={"1.4": {"probe": "exit"}})
    found = bisected.finds()
    assert found.sentence.startswith(
        f"first slow release: {PACKAGE} 1.5; 1.3 is the last good one, or one of 1.4, which cannot "
        "be tested; "
    )


@pytest.mark.exhaustive
def test_a_wrong_value_is_looked_for_by_itself(bisected: Bisected) -> None:
    bisected.does("1.7", {"cases": [{"then": "wrong_result"}]})
    found = bisected.finds()
    assert found.sentence.startswith(
        f"first wrong result release: {PACKAGE} 1.7; 1.6 is the last good one; "
    )


@pytest.mark.exhaustive
def test_the_release_that_mended_it_is_found(bisected: Bisected) -> None:
    bisected.does("1.0", SLOW, releases={version: {} for version in VERSIONS[3:]})
    found = bisected.finds("--fixed", good="1.8", bad="1.0")
    assert found.sentence.startswith(
        f"first release without it: {PACKAGE} 1.3; 1.2 is the last one with it; "
    )


@pytest.mark.exhaustive
def test_every_step_is_named(bisected: Bisected) -> None:
    bisected.does("1.6", SLOW, releases={"1.2": {"latency_s": 2e-3}})
    found = bisected.finds("--every")
    lines = found.out.splitlines()
    assert lines[-1] == f"3 steps among 9 releases of {PACKAGE}, 0 untestable"
    moved = [line for line in lines if ": bad: " in line]
    assert [line.split(": ")[0] for line in moved] == [
        f"{PACKAGE} 1.2 beside 1.1",
        f"{PACKAGE} 1.3 beside 1.2",
        f"{PACKAGE} 1.6 beside 1.5",
    ]


@pytest.mark.exhaustive
def test_where_good_and_bad_do_not_differ_there_is_no_step(bisected: Bisected) -> None:
    bisected.does("1.0", {})
    found = bisected.finds()
    assert found.code == 1
    assert found.out == f"{PACKAGE} 1.8 shows nothing that 1.0 does not: there is no step\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_one_that_is_cut_short_leaves_nothing_unfinished_and_goes_on(
    bisected: Bisected, number: signal.Signals
) -> None:
    bisected.does("1.1", SLOW)
    words = [sys.executable, "-m", "busbw", *bisected.words(bad="1.2")]
    (temporary := bisected.folder / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    for step in (b"the good one", b"the bad one"):
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
        errors = process.communicate(timeout=30)[1]
        if number is not signal.SIGKILL:
            assert b"left on disk: " in errors
            assert not [*temporary.iterdir(), *bisected.folder.rglob("*.new")]
    found = bisected.finds(bad="1.2")
    said = f"first slow release: {PACKAGE} 1.1; 1.0 is the last good one; "
    assert found.sentence.startswith(said)


@pytest.mark.parametrize(
    ("options", "ends", "sentence"),
    [
        pytest.param(
            *((), {"good": "1.8", "bad": "1.0"}, f"{PACKAGE}: 1.8 is not older than 1.0"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *(("--fixed",), {}, f"{PACKAGE}: 1.8 is not older than 1.0"),
            marks=pytest.mark.exhaustive,
        ),
        (("--framework=fak",), {}, "argument --framework: expected one of "),
    ],
)
def test_what_is_asked_wrongly_is_a_usage_error(
    bisected: Bisected, options: tuple[str, ...], ends: dict[str, str], sentence: str
) -> None:
    bisected.finds(*options, **ends).refuses(sentence)


@pytest.mark.exhaustive
def test_flags_that_do_nothing_are_named(tmp_path: Path) -> None:
    (recipe := tmp_path / "recipe").write_text("--xla_a=1\n--xla_b=2\n")
    (path := tmp_path / "empty").write_text("")
    found = command("bisect", f"--flags={recipe}", "--framework=fake", "--", "--payloads=64K")
    assert found.code == 0, found.err
    assert found.out.splitlines() == [
        "--xla_a=1 --xla_b=2: nothing",
        "--xla_a=1: nothing",
        "--xla_b=2: nothing",
        "of 2 flags 2 nothing",
    ]
    command("bisect", f"--flags={path}").refuses("no flags; accepted are flags such as")
    command("bisect", "jaxlib", f"--flags={recipe}").refuses("accepted is it alone, or PACKAGE")
    command("bisect", "jaxlib").refuses("with --good and --bad, or --flags=FILE")


@pytest.mark.exhaustive
def test_a_state_of_another_bisection_is_kept(bisected: Bisected) -> None:
    bisected.state.write_text(
        json.dumps({"document": DOCUMENT, "asked": ["other"], "tried": [], "launches": 0})
    )
    bisected.finds().refuses("state.json is of another bisection (other); remove it")
    assert "other" in bisected.state.read_text()


def test_a_package_that_the_index_does_not_have_is_an_error(bisected: Bisected) -> None:
    found = command("bisect", "no-such-package", "--good=1", "--bad=2")
    assert found.code == 1
    assert "busbw bisect: uv: error: No solution found" in found.err
