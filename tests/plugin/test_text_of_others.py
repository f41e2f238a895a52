"""What workers print, and what they say of themselves: it moves no terminal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from .folder import SLOW, Folder, Ran

MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|#x[0-9A-F]{2}")
EVIL = "evil\x1b[2J\x07\x9b2J\x7f\u202e\u2066"
SHOWN = r"evil\x1b[2J\x07\x9b2J\x7f\u202e\u2066"
WITH_PAGE = ("--page=page.html", "--history=history")


def says(folder: Folder, said: str) -> str:
    """The option for an interpreter whose measuring worker writes this, and ends."""
    (folder.path / "said").write_text(said)
    path = folder.path / "interpreter"
    ends = f'case "$*" in *--launch=1*) cat {folder.path}/said >&2; exit 3;; esac'
    path.write_text(f'#!/bin/sh\n{ends}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return f"--python=fake={path}"


def texts(folder: Folder, ran: Ran) -> dict[str, str]:
    """What a session shows and writes, by what it is."""
    assert ran.results is not None
    files = [path for path in folder.path.glob("history/**/*") if path.is_file()]
    return {
        "terminal": ran.text,
        "JUnit": (folder.path / "junit.xml").read_text(),
        "results": json.dumps(ran.results, ensure_ascii=False).replace("\\\\", "\\"),
        "page": (folder.path / "page.html").read_text(),
        "history": "\n".join(path.read_text() for path in files),
    }


def test_what_a_worker_prints_moves_no_terminal_and_is_shown_escaped(folder: Folder) -> None:
    ran = folder.run(says(folder, f"\ttab\n{EVIL}\rback\n"), *WITH_PAGE, exit_code=1)
    found = texts(folder, ran)
    assert [name for name, text in found.items() if MOVES.search(text)] == []
    for name in ("terminal", "JUnit", "results", "page"):
        assert rf"{SHOWN}\rback" in found[name], name


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [
        ({"processes": {"0": {"versions": {"evil": EVIL}}}}, 0),
        # The worker is asked for devices of the name that is shown, and has none.
        ({"device": "tpu", "device_kind": EVIL}, 1),
    ],
    ids=["version", "device"],
)
def test_nor_does_what_it_says_of_versions_and_devices(
    folder: Folder, script: Mapping[str, object], exit_code: int
) -> None:
    folder.script(**SLOW, **script)
    found = texts(folder, folder.run(*WITH_PAGE, exit_code=exit_code))
    assert not any(map(MOVES.search, found.values()))
    assert SHOWN in found["terminal"]


def test_the_name_of_a_file_moves_no_terminal_of_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "busbw", "trace", EVIL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert f"{SHOWN}: there is no such file or folder" in said
    assert not MOVES.search(said + done.stdout.decode())


def test_the_name_of_a_file_is_escaped_in_a_page(folder: Folder) -> None:
    folder.run(exit_code=0)
    name = f"{EVIL}.json"
    shutil.copy(folder.path / "results.json", folder.path / name)
    command = [sys.executable, "-m", "busbw", "page", name, "-o", "page.html"]
    subprocess.run(command, cwd=folder.path, check=True)
    page = (folder.path / "page.html").read_text()
    assert f"{SHOWN}.json" in page
    assert not MOVES.search(page)
