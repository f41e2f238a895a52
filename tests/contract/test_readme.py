"""README.md lists 40 guarantees, and the tests that it names exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
GUARANTEES = re.split(r"^(?=\d+\. )", TEXT, flags=re.MULTILINE)[1:]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def test_there_are_forty_numbered_guarantees() -> None:
    numbers = [int(guarantee.partition(".")[0]) for guarantee in GUARANTEES]
    assert numbers == list(range(1, 41))


def test_each_guarantee_names_a_test_or_what_is_missing() -> None:
    named = re.compile(r"^ +- (`tests/[\w/]+\.py::\w+`|Not yet: .+)", re.MULTILINE)
    assert [text for text in GUARANTEES if not named.search(text)] == []


def test_each_line_that_begins_with_a_test_is_understood() -> None:
    assert TEXT.count("- `tests/") == len(re.findall(r"- `tests/[\w/]+\.py::\w+`\n", TEXT))


def test_each_test_that_is_named_exists() -> None:
    missing = [(path, name) for path, name in TESTS if name not in _functions(path)]
    assert missing == []


@functools.cache
def _functions(path: str) -> frozenset[str]:
    """Return the names of the functions in a file; of none if there is no such file."""
    file = ROOT / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return frozenset(re.findall(r"^(?:    )?def (\w+)\(", text, re.MULTILINE))


def test_files_that_are_named_exist() -> None:
    names = set(re.findall(r"`((?:tests|docs)/[\w/]+(?:\.py|\.md)?)`", TEXT))
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
