"""docs/install.md has every option, with its setting, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "install.md"
GROUPS = ["busbw", "busbw compare", "busbw hosts", "busbw compile"]


def documented() -> dict[str, str]:
    """Settings by option, as the page's table has them; empty for none."""
    rows = re.findall(r"^\| `(--[a-z-]+)` \| (?:`(\w+)`)? ?\|", PAGE.read_text("utf-8"), re.M)
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def test_the_table_of_options_is_that_of_the_parser(pytester: pytest.Pytester) -> None:
    parser = pytester.parseconfig("-p", "busbw.plugin")._parser
    groups = [one for one in parser._groups if one.name.startswith("busbw")]
    assert [one.name for one in groups] == GROUPS
    assert all(one.options for one in groups)
    options = [option.names()[0] for one in groups for option in one.options]
    settings = {name for name in parser._inidict if name.startswith("busbw_")}
    named = {flag: "busbw_" + flag.removeprefix("--").replace("-", "_") for flag in options}
    assert documented() == {
        flag: setting if setting in settings else "" for flag, setting in named.items()
    }
    assert settings <= set(named.values())


def test_what_the_page_says_of_other_commands_is_there() -> None:
    text = PAGE.read_text("utf-8")
    for words in ("busbw run", "busbw init", "busbw --version", "BUSBW_REQUIREMENT"):
        assert words in text
