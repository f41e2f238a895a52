"""Texts that a session shows: escaped control characters, masked secrets, and the summary."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.helpers import nightly
from tests.helpers.session_folder import SEVEN, SLOW, TPU, Folder, Ran
from tests.helpers.sweep import sweep
from tests.helpers.workers import write_program

MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|#x[0-9A-F]{2}")
EVIL = "evil\x1b[2J\x07\x9b2J\x7f\u202e\u2066"
SHOWN = r"evil\x1b[2J\x07\x9b2J\x7f\u202e\u2066"
WITH_PAGE = ("--page=page.html", "--history=history")


def interpreter_that_logs(folder: Folder, log: str) -> str:
    """Return the option for an interpreter whose worker writes `log` and ends."""
    (folder.path / "said").write_text(log)
    ends = f'case "$*" in *--launch=1*) cat {folder.path}/said >&2; exit 3;; esac'
    text = f'#!/bin/sh\n{ends}\nexec {sys.executable} "$@"\n'
    return f"--python=fake={write_program(folder.path / 'interpreter', text)}"


def texts_by_place(folder: Folder, ran: Ran) -> dict[str, str]:
    """Return the texts that a session shows and writes, by their place."""
    files = [path for path in folder.path.glob("history/**/*") if path.is_file()]
    return {
        "terminal": ran.text,
        "JUnit": (folder.path / "junit.xml").read_text(),
        "results": json.dumps(ran.results, ensure_ascii=False).replace("\\\\", "\\"),
        "page": (folder.path / "page.html").read_text(),
        "history": "\n".join(path.read_text() for path in files),
    }


@pytest.mark.exhaustive
@pytest.mark.extension("page")
@pytest.mark.parametrize(
    ("script", "exit_code"),
    sweep(
        [
            ({"processes": {"0": {"versions": {"evil": EVIL}}}}, 0),
            # The worker is asked for devices of the name that is shown, and has none.
            ({"device": "tpu", "device_kind": EVIL}, 1),
        ]
    ),
    ids=["version", "device"],
)
def test_control_characters_in_versions_and_devices_of_a_worker_are_escaped(
    folder: Folder, script: Mapping[str, object], exit_code: int
) -> None:
    folder.script(**SLOW, **script)
    places = texts_by_place(folder, folder.run(*WITH_PAGE, exit_code=exit_code))
    assert not any(map(MOVES.search, places.values()))
    assert SHOWN in places["terminal"]


TOKEN, SHORT = "hunter2-hunter2", "short77"


@pytest.mark.extension("page")
def test_the_log_of_a_worker_is_escaped_and_its_secrets_are_masked_in_every_output(
    folder: Folder,
) -> None:
    folder.environment.setenv("MY_API_TOKEN", TOKEN)
    folder.environment.setenv("db_password", SHORT)
    folder.environment.setenv("HOME", str(folder.path / "people" / "me"))
    secrets = f"{TOKEN} {SHORT} https://me:pass@host/x {folder.path}/people/me/a /home/other/b"
    log = f"\ttab\n{EVIL}\rback\n{secrets}"
    places = texts_by_place(
        folder, folder.run(interpreter_that_logs(folder, log), *WITH_PAGE, exit_code=1)
    )
    assert [name for name, text in places.items() if MOVES.search(text)] == []
    for name, text in places.items():
        for secret in (TOKEN, "me:pass", "people/me", "/home/other"):
            assert secret not in text, (name, secret)
    for name in ("terminal", "JUnit", "results", "page"):
        assert rf"{SHOWN}\rback" in places[name], name
        assert f"*** {SHORT} https://***@host/x ~/a ~/b" in places[name], name


def _summary(folder: Folder, *options: str) -> list[str]:
    command = [sys.executable, "-m", "busbw", "summary", "results.json", *options]
    return subprocess.run(
        command, cwd=folder.path, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_the_summary_lists_regressions_and_cases_that_became_faster(
    folder: Folder,
) -> None:
    folder.regressed("--payloads=1K,1M,2M,4M", "--launches=2")
    folder.scale_baseline(3, "2M")
    folder.run("--payloads=1K,1M,2M,4M", "--launches=2", exit_code=1)
    lines = _summary(folder)
    assert lines[2].startswith("**FAILED")
    assert any(re.match(r"- 1 REGRESSED: fake 1M 3\.0\d x \(limit ", row) for row in lines)
    assert "1 IMPROVED: see the tables." in lines


@pytest.mark.exhaustive
def test_the_summary_lists_a_changed_level_with_its_first_day_and_the_changed_version(
    folder: Folder,
) -> None:
    folder.script(**TPU)
    folder.with_baselines(SEVEN)
    nightly.stored_before(folder, {20: 1.0})
    old, new = {"fake": "0.9"}, {"fake": "1"}
    nightly.nights(folder, [*[1.0] * 12, *[1.05] * 6], versions=[*[old] * 12, *[new] * 6])
    folder.script(**TPU, cases=[{"slower": 1.05}])
    folder.run(SEVEN, "--history=history", exit_code=1)
    lines = _summary(folder, "--history=history")
    assert lines[2].startswith("**FAILED, SLOWER** ")
    assert "all cases of fake are " in lines[2] and "over the last 7 sessions" in lines[2]
    heading = lines.index("Levels that changed, newest first:")
    night = nightly.days_ago(6)[:10]
    change = rf"\+[45]\.?\d* % since {night} \(7 sessions\); changed there: fake 0\.9 -> 1"
    assert re.fullmatch(f"- all cases of fake: {change}", lines[heading + 2])
