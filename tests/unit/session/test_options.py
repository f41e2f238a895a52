"""An option is one declaration: on the command line, in the ini file, in help and errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from busbw.session.command_line import make_options, parse_options
from busbw.session.options import Options


def _read(root: Path, *words: str, **settings: list[str]) -> Options:
    return make_options(parse_options(["--frameworks=fake", *words]), root, settings)


def test_values_of_a_repeatable_option_in_ini_file_and_command_line_are_joined(
    tmp_path: Path,
) -> None:
    options = _read(tmp_path, f"--python=jax={sys.executable}", python=[f"fake={sys.executable}"])
    assert set(options.python) == {"jax", "fake"}


def test_an_ini_setting_is_ignored_if_an_option_on_the_command_line_excludes_the_setting(
    tmp_path: Path,
) -> None:
    assert _read(tmp_path, fail_above=["25%"]).fail_above == 1.25
    options = _read(tmp_path, "--try-env=A=B", fail_above=["25%"])
    assert (options.fail_above, options.is_paired, options.launches) == (None, True, 6)


@pytest.mark.parametrize(
    ("words", "launches"),
    [
        ("", 3),
        ("--launches=auto", 3),
        ("--history=history", 0),
        ("--history=history --launches=2", 2),
        ("--history=history --update-baselines", 3),
        ("--history=history --launches=auto --try-env=A=B", 6),
    ],
)
def test_only_a_session_with_a_history_finds_out_how_many_launches_each_case_needs(
    tmp_path: Path, words: str, launches: int
) -> None:
    """Read options; 0 launches stand for `auto`."""
    assert _read(tmp_path, *words.split()).launches == launches
