"""A session that is driven without pytest, from what was given to what was written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from busbw import storage
from busbw.model.words import Outcome, SessionOutcome
from busbw.session.command_line import read_options
from busbw.session.errors import UsageError
from busbw.session.mode import add_specs
from busbw.session.progress import Display, Screen
from busbw.session.run import run_session, write
from busbw.session.state import Collected, Judged, Measured, Observed

pytestmark = pytest.mark.sessions

FAKE = ("--frameworks=fake", "--payloads=1M,2M", "--launches=1")


class Lines(Screen):
    """Keeps what is said."""

    def __init__(self, *, can_overwrite: bool = False) -> None:
        self.said: list[str] = []
        self.can_overwrite = can_overwrite

    def line(self, text: str) -> None:
        self.said.append(text)

    def overwrite(self, text: str) -> None:
        self.said.append(f"> {text}")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no session of another folder, and is asked for no baselines."""
    monkeypatch.setenv(storage.MACHINE, str(tmp_path))
    for name in ("CI", "BUSBW_FAKE"):
        monkeypatch.delenv(name, raising=False)


def _judged(root: Path, screen: Lines, *words: str) -> tuple[Judged, list[Observed]]:
    collected = Collected(options=read_options([*FAKE, *words], root))
    collected, specs = add_specs(collected)
    kept: list[Observed] = []
    return run_session(collected, specs, Display(screen), keep=kept.append), kept


def _written(root: Path, *words: str) -> Judged:
    judged = write(_judged(root, Lines(), *words)[0])
    assert judged is not None
    return judged


def test_a_session_says_what_it_measures_and_hands_over_what_there_is(tmp_path: Path) -> None:
    screen = Lines()
    found, (kept,) = _judged(tmp_path, screen)
    assert found.session.headline() == "NOTHING_COMPARED: 2 cases measured in 1 launch each"
    assert [one.outcome for one in found.verdicts.values()] == [Outcome.NO_BASELINE] * 2
    assert isinstance(kept, Measured) and len(kept.measurements) == 2
    assert "busbw: round 1/1" in screen.said
    assert screen.said[-2] == "> "
    assert re.fullmatch(r"busbw: measured in \d+ s", screen.said[-1])


def test_what_is_accepted_is_the_baseline_of_the_next_session(tmp_path: Path) -> None:
    first = _written(tmp_path, "--update-baselines", f"--results={tmp_path / 'results.json'}")
    assert (first.exit_code, first.errors) == (None, ())
    assert [len(table.rows) for table in first.changes] == [2]
    results = json.loads((tmp_path / "results.json").read_text())
    assert [case["outcome"] for case in results["cases"]] == ["NO_BASELINE"] * 2
    again = _written(tmp_path)
    assert again.session.outcomes == (SessionOutcome.PASS,)


@pytest.mark.exhaustive
def test_times_that_were_not_accepted_fail_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"latency_s": 1e-3}))
    _written(tmp_path, "--update-baselines")
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"latency_s": 1e-3, "cases": [{"slower": 3}]}))
    refused = _written(tmp_path, "--update-baselines")
    assert refused.exit_code == pytest.ExitCode.TESTS_FAILED and not refused.changes


def test_a_probe_that_fails_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"probe": {"event": "kill"}}))
    with pytest.raises(UsageError, match="fake"):
        _judged(tmp_path, Lines())


def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    screen = Lines(can_overwrite=True)
    _judged(tmp_path, screen)
    shown = [line for line in screen.said if line.startswith("> busbw: round 1/1")]
    assert len(shown) == 2 and ": 2/2 " in shown[1]


_WITHOUT_PYTEST = """
import sys
from pathlib import Path

from busbw.session.command_line import read_options
from busbw.session.mode import add_specs
from busbw.session.progress import Display, Screen
from busbw.session.run import run_session, write
from busbw.session.state import Collected

options = read_options(["--frameworks=fake", "--payloads=1M", "--launches=1"], Path("."))
collected, specs = add_specs(Collected(options=options))
judged = write(run_session(collected, specs, Display(Screen())))
print(judged.session.headline(), "pytest" in sys.modules)
"""


def test_no_pytest_is_needed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYTEST],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
    )
    assert done.stdout.startswith("NOTHING_COMPARED: 1 case measured") and done.stdout.endswith(
        "False\n"
    )
