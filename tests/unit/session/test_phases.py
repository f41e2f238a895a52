"""A session that is driven without pytest, from what was given to what was written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from busbw.model.words import Outcome, SessionOutcome
from busbw.session import selection
from busbw.session.display import Display, Screen
from busbw.session.errors import UsageError
from busbw.session.options import given
from busbw.session.phases import Surroundings, judged, written
from busbw.session.settings import settings_of
from busbw.session.state import Collected, Judged, Measured, Observed

pytestmark = pytest.mark.sessions

FAKE: dict[str, Any] = {"frameworks": "fake", "payloads": "1M,2M", "launches": "1"}


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


def _judged(root: Path, screen: Lines, **options: Any) -> tuple[Judged, list[Observed]]:
    collected = Collected(settings=settings_of(given(root, **{**FAKE, **options})))
    collected, specs = selection.with_specs(collected)
    kept: list[Observed] = []
    within = Surroundings(display=Display(screen), keep=kept.append)
    return judged(collected, specs, within), kept


def _written(root: Path, **options: Any) -> Judged:
    found = written(_judged(root, Lines(), **options)[0])
    assert found is not None
    return found


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
    first = _written(tmp_path, update_baselines="all", results=str(tmp_path / "results.json"))
    assert (first.exit_code, first.errors) == (None, ())
    assert [len(table.rows) for table in first.changes] == [2]
    results = json.loads((tmp_path / "results.json").read_text())
    assert [case["outcome"] for case in results["cases"]] == ["NO_BASELINE"] * 2
    again = _written(tmp_path)
    assert again.session.outcomes == (SessionOutcome.FINE,)


@pytest.mark.exhaustive
def test_times_that_were_not_accepted_fail_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"latency_s": 1e-3}))
    _written(tmp_path, update_baselines="all")
    monkeypatch.setenv("BUSBW_FAKE", json.dumps({"latency_s": 1e-3, "cases": [{"slower": 3}]}))
    refused = _written(tmp_path, update_baselines="all")
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

from busbw.session import selection
from busbw.session.display import Display, Screen
from busbw.session.options import given
from busbw.session.phases import Surroundings, judged, written
from busbw.session.settings import settings_of
from busbw.session.state import Collected

asked = given(Path("."), frameworks="fake", payloads="1M", launches="1")
collected, specs = selection.with_specs(Collected(settings=settings_of(asked)))
found = written(judged(collected, specs, Surroundings(display=Display(Screen()))))
print(found.session.headline(), "pytest" in sys.modules)
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
