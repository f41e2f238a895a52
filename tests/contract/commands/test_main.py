"""`busbw` itself: its version, its help, mistyped commands, and commands of extensions."""

from __future__ import annotations

import argparse
import importlib.metadata
import re
from typing import Any

import pytest

from tests.contract.docs.programs import busbw_parsers
from tests.helpers.command_line import asked_here, command


def _load(extension: str, *values: object) -> Any:
    """Return `values`, which concern a command of an extension, as parameters."""
    return pytest.param(*values, marks=pytest.mark.extension(extension))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["histroy"], "argument COMMAND: invalid choice: 'histroy' (choose from "),
        _load("profiles", ["trace", "x", "--collective=allreduce"], "expected one of all_gather, "),
        _load("page", ["page", "x", "-o", "a", "--outptu=a"], "unrecognized arguments: --outptu=a"),
        (["history", "x", "--quiet"], "unrecognized arguments: --quiet"),
        (
            ["history", "x", "--baselines="],
            "argument --baselines: expected a value, got an empty text",
        ),
        _load("page", ["page", "x", "-o", ""], "argument -o/--output: expected a value, got an "),
        (["history", ""], "argument DIR: expected a value, got an empty text"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_mistyped_command_or_option_of_busbw_is_a_usage_error(
    arguments: list[str], message: str
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert message in ran.err


def test_the_option_version_prints_the_version_of_the_installed_package() -> None:
    answer = command("--version")
    assert (answer.code, answer.out) == (0, f"busbw {importlib.metadata.version('busbw')}\n")


def test_the_help_of_busbw_calls_the_program_busbw() -> None:
    assert asked_here("--help").out.startswith("usage: busbw [-h] [--version] COMMAND ...\n")
    assert asked_here("history", "--help").out.startswith("usage: busbw history ")


# The commands in the order of the help, and the extensions that have them.
OF_EXTENSIONS = {
    "bisect": "bisect",
    "estimate": "estimate",
    "page": "page",
    "figure": "page",
    "trace": "profiles",
    "program": "program",
    "doctor": "setup",
    "init": "setup",
    "stack": "stacks",
    "find-slow": "stragglers",
}
OF_CORE = ["run", "history", "summary"]
NAMES = [*OF_CORE, *OF_EXTENSIONS]

# The verbs with which the help of commands begins.
_VERBS = {
    *("check", "compare", "draw", "estimate", "find", "let", "list", "measure"),
    *("print", "run", "set", "show", "write"),
}


def _verb(text: str) -> str:
    return re.split(r"\W", text.strip())[0].lower()


@pytest.mark.parametrize(
    "name", [*OF_CORE, *(_load(extension, name) for name, extension in OF_EXTENSIONS.items())]
)
def test_the_help_of_a_command_begins_with_a_verb_and_explains_each_argument(name: str) -> None:
    parser = busbw_parsers()[name]
    assert "{}" not in parser.format_help()
    assert _verb(parser.description or "") in _VERBS
    explained = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    unclear = [
        action.dest for action in explained if not re.match("[A-Z]|[a-z]+:", action.help or "")
    ]
    assert unclear == ["help"] * (name != "run")


@pytest.mark.extension("setup")
def test_the_help_of_busbw_lists_each_command_in_order_with_a_description() -> None:
    listed = re.findall(r"^    (\S+)\s+(.*)", asked_here("--help").out, flags=re.MULTILINE)
    assert [name for name, _ in listed] == NAMES
    assert {_verb(text) for _, text in listed} <= _VERBS
