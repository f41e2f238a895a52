"""The language of the pages: nouns are not replaced by other words, and the reader is addressed."""

from __future__ import annotations

import re

import pytest

from tests.contract.docs.pages import PAGES, ROOT, prose


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [(r"\bones?\b", 0, 3), (r"\bwhat\b", 0, 2), (";", 0, 3), (r"\byour?\b", 5, 50)],
    ids=["one", "what", "semicolon", "you"],
)
def test_the_documentation_rarely_uses_the_words_one_and_what_and_addresses_the_reader(
    pattern: str, least: float, most: float
) -> None:
    pages = "\n".join(prose(page.read_text(encoding="utf-8")) for page in PAGES)
    text = re.sub(r"`[^`]*`|^\|.*$", " ", pages, flags=re.MULTILINE)
    rate = 1000 * len(re.findall(pattern, text, re.IGNORECASE)) / len(text.split())
    assert least <= rate <= most


def test_every_module_that_the_map_of_the_repository_names_exists() -> None:
    _, _, text = PAGES[1].read_text(encoding="utf-8").partition("\n    busbw/\n")
    named = set(re.findall(r"(?<![\w*/])\w+\.py\b", text.partition("\n    tests/ ")[0]))
    assert named <= {path.name for path in (ROOT / "busbw").rglob("*.py")}
    assert len(named) > 60
