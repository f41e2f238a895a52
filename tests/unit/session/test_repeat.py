"""The words by which a session is repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.session.options import OPTIONS, given
from busbw.session.repeat import command_text, words_of
from busbw.session.settings import Settings, settings_of


def settings(root: Path, **options: Any) -> Settings:
    return settings_of(given(root, frameworks="fake", **options))


def test_options_that_write_files_accept_nothing_a_second_time(tmp_path: Path) -> None:
    writes = {one.name for one in OPTIONS if not one.repeats} - {"require_baselines"}
    assert writes == {
        *("results", "metrics", "page", "update_baselines", "accept_regression"),
        "prune_baselines",
    }
    asked = given(tmp_path, update_baselines="all", accept_regression="why", results="x.json")
    assert words_of(asked) == ()


def test_what_the_ini_file_says_holds_for_the_next_session_too(tmp_path: Path) -> None:
    """On a command line a setting might contradict another option."""
    asked = replace(given(tmp_path, payloads="1M"), ini={"launches": "5"}, selection=("-k", "1M"))
    assert words_of(asked) == ("--payloads=1M", "-k", "1M")


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
    command = command_text(settings(tmp_path), environment, "tpu")
    assert command == f"{text}busbw run --device=tpu --frameworks=fake"
