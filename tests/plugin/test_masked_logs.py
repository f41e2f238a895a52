"""Logs of workers give nothing away, wherever they are shown: no secret and no home directory."""

from __future__ import annotations

import sys

import pytest

from .folder import Folder
from .test_text_of_others import WITH_PAGE, says, texts

TOKEN, SHORT = "hunter2-hunter2", "short77"


def test_a_worker_s_log_is_masked_alike_wherever_it_is_shown(folder: Folder) -> None:
    folder.environment.setenv("MY_API_TOKEN", TOKEN)
    folder.environment.setenv("db_password", SHORT)
    folder.environment.setenv("HOME", str(folder.path / "people" / "me"))
    said = f"{TOKEN} {SHORT} https://me:pass@host/x {folder.path}/people/me/a /home/other/b"
    ran = folder.run(says(folder, said), *WITH_PAGE, exit_code=1)
    found = texts(folder, ran)
    for name, text in found.items():
        for secret in (TOKEN, "me:pass", "people/me", "/home/other"):
            assert secret not in text, (name, secret)
    for name in ("terminal", "JUnit", "results", "page"):
        assert f"*** {SHORT} https://***@host/x ~/a ~/b" in found[name], name


@pytest.mark.parametrize("probe", ["exit", "hang"])
def test_so_is_that_of_a_probe(folder: Folder, probe: str) -> None:
    home = folder.path / "people" / "me"
    home.mkdir(parents=True)
    folder.environment.setenv("HOME", str(home))
    folder.environment.setenv("MY_API_TOKEN", TOKEN)
    path = home / "python"
    kill = "kill -9 $$" if probe == "hang" else "exit 3"
    ends = f'case "$*" in *--launch=probe*) echo "$MY_API_TOKEN $HOME/x" >&2; {kill};; esac'
    path.write_text(f'#!/bin/sh\n{ends}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    ran = folder.run(f"--python=fake={path}", exit_code=1 if probe == "hang" else 4)
    junit = (folder.path / "junit.xml").read_text()
    assert "*** ~/x" in ran.text
    assert TOKEN not in ran.text + junit
    assert "people/me/x" not in ran.text
    assert "people/me" not in junit
