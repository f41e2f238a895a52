"""`busbw` itself: its version, its help, and words that are no command."""

from __future__ import annotations

import pytest

import busbw
from busbw.__main__ import main

from .asked import asked_here, command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["histroy"], "there is no command 'histroy'; did you mean 'history'? accepted are "),
        (["traces", "folder"], "there is no command 'traces'; did you mean 'trace'? "),
        (["psum"], "there is no command 'psum'; accepted are "),
        (["stack", "lst"], "argument ACTION: 'lst'; did you mean 'list'? accepted are list, build"),
        (["trace", "x", "--rate=busb"], "argument --rate: 'busb'; did you mean 'busbw'? "),
        (["trace", "x", "--collective=allreduce"], "did you mean 'all_reduce'? accepted are "),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_what_is_mistyped_is_a_usage_error_with_the_nearest(
    arguments: list[str], said: str
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert said in ran.err


def test_it_says_its_version() -> None:
    answer = command("--version")
    assert (answer.code, answer.out) == (0, f"busbw {busbw.__version__}\n")


def test_help_calls_it_by_the_name_of_the_script() -> None:
    asked = asked_here("--help")
    assert asked.out.startswith("usage: busbw [-h] [--version] COMMAND ...\n")
    assert "history" in asked.out
    assert asked_here("history", "--help").out.startswith("usage: busbw history ")


def test_the_script_runs_the_command_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["busbw", "--version"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 0
    assert capsys.readouterr().out == f"busbw {busbw.__version__}\n"
