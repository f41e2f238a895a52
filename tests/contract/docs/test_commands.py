"""Every command of the pages names commands, options, values and environments that exist.

Nothing is measured. `python -m tests.contract.docs` runs the commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.docs import programs
from tests.contract.docs.collecting import objections
from tests.contract.docs.pages import PAGES, ROOT, Command, commands, name_of, spans

# Each text once: pages repeat some.
_COMMANDS = {
    command.text.partition("  #")[0].rstrip(): command
    for page in PAGES
    for command in commands(page)
}
# Options of other programs.
_OF_OTHERS = re.compile(
    r"--(xla_.*|require-hashes|runner|junitxml|layout|kills|(cpus|gpus)-per-task|bind-to|"
    r"no-nanny|name|protocol|scheduler-file|host|dashboard-address|nodelist|no-kill|wait)"
)


def _paths(words: list[str]) -> str:
    """Return the missing paths in a call of pytest that measures nothing."""
    missing = [path for path in words if "/" in path and not (ROOT / path).exists()]
    return f"no {', '.join(missing)}" if missing else ""


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=_COMMANDS)
def test_every_command_or_option_or_file_in_a_documented_command_line_exists(
    command: Command,
) -> None:
    calls = [words for words in command.calls if not programs.session(words)]
    problems = [programs.problem(words, lambda words: _paths(list(words))) for words in calls]
    assert [text for text in problems if text] == [], command.place


# Without them pytest refuses options that name them.
@pytest.mark.exhaustive
@pytest.mark.framework("jax", "tensorflow")
def test_pytest_can_collect_the_tests_of_every_pytest_command_in_the_documentation(
    tmp_path: Path,
) -> None:
    calls = {programs.session(words) for command in _COMMANDS.values() for words in command.calls}
    sessions = sorted(filter(None, calls))
    answers = objections(sessions, tmp_path)
    assert [pair for pair in zip(sessions, answers, strict=True) if pair[1]] == []


def test_every_option_that_a_documentation_page_mentions_exists(pytester: pytest.Pytester) -> None:
    helped = pytester.runpytest("-p", "busbw.plugin", "--help").stdout.str()
    parsers = [parser.format_help() for parser in programs.busbw_parsers().values()]
    options = set(re.findall(r"--[a-z][a-z-]*", "".join([helped, *parsers])))
    named = [(name_of(page), *place) for page in PAGES for place in _options(page)]
    assert [
        place for place in named if place[2] not in options and not _OF_OTHERS.match(place[2])
    ] == []


def _options(page: Path) -> list[tuple[int, str]]:
    return [
        (line, option)
        for line, span in spans(page.read_text(encoding="utf-8"))
        for option in re.findall(r"(?:^| )(--[a-z][a-z_-]*)", span)
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python -m busbw none --json", "no command none"),
        ("python -m busbw history all --jason > all.json", "unrecognized arguments: --jason"),
        ("python -m tox -e none", "no environment none"),
        ('pip install -e ".[jax,none]"', "no extra none"),
        ("python .github/none.py", "no file"),
        ("python -m bench none", "invalid choice"),
        ("python -m bench error_rates rates --launch=2", "unrecognized arguments: --launch=2"),
        ("python -m nose", "no program nose"),
        ("python -m pytest tests/none", "no tests/none"),
    ],
)
def test_the_documentation_check_reports_a_command_with_a_missing_file_or_option(
    text: str, problem: str
) -> None:
    (words,) = Command(page="", line=0, text=text).calls
    assert problem in programs.problem(words, lambda words: _paths(list(words)))


# Later releases of argparse write the names of an option in another way.
@pytest.mark.exhaustive
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="another format of help")
def test_the_reference_page_has_the_help_of_every_command() -> None:
    write = [sys.executable, str(ROOT / "docs/write_reference.py")]
    written = subprocess.run(write, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/reference.md").read_text("utf-8") == written
