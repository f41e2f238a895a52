"""`busbw` itself: its version, its help, and what is no command."""

from __future__ import annotations

import re

import pytest

import busbw
from busbw.__main__ import main

from .asked import asked_here, command


def test_it_says_its_version() -> None:
    answer = command("--version")
    assert (answer.code, answer.out) == (0, f"busbw {busbw.__version__}\n")


def test_help_calls_it_by_the_name_of_the_script() -> None:
    assert asked_here("--help").out.startswith("usage: busbw [-h] [--version] COMMAND ...\n")
    assert asked_here("history", "--help").out.startswith("usage: busbw history ")


def test_what_is_no_command_is_a_usage_error() -> None:
    answer = asked_here("measure")
    assert answer.code == 2
    assert re.match(r"busbw: error: argument COMMAND: invalid choice: 'measure'", answer.errors[-1])


def test_the_script_runs_the_command_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["busbw", "--version"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"busbw {busbw.__version__}\n"
