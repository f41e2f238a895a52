"""The command that repeats a session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.session.command_line import read_options
from busbw.session.options import OPTIONS
from busbw.session.repeat import command_text, repeat_words


def test_options_that_write_files_are_not_repeated() -> None:
    outputs = {name for name, option in OPTIONS.items() if option.is_output}
    assert outputs == {
        *("results", "metrics", "page", "update_baselines", "accept_regression"),
        "prune_baselines",
    }
    words = ["perf", "-k", "1M", "--results", "a.json", "--update-baselines=new"]
    assert repeat_words([*words, "--payloads=1M", "--page=x.html"]) == ("--payloads=1M",)


def test_options_are_repeated_as_they_were_passed() -> None:
    words = ("--python=fake=python3", "--require-baselines", "--program=train.py:step")
    assert set(repeat_words(words)) == set(words)


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"XLA_FLAGS": "--a --b"}, "XLA_FLAGS='--a --b' "),
        ({"XLA_FLAGS": "--dump=/home/me/$x"}, 'XLA_FLAGS="--dump=$HOME/\\$x" '),
        ({"XLA_KEY": "1", "PATH": "/bin", "MY_TOKEN": "x"}, ""),
    ],
)
def test_variables_that_change_what_is_measured_stand_before_the_command(
    tmp_path: Path, environment: dict[str, str], text: str
) -> None:
    options = replace(read_options(["--frameworks=fake"], tmp_path), command=("--frameworks=fake",))
    command = command_text(options, environment, "tpu")
    assert command.startswith(f"{text}busbw run --device=tpu --frameworks=fake")
