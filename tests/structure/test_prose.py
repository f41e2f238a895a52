"""The language of the pages: nouns are not replaced by other words, and the reader is addressed."""

from __future__ import annotations

import re

import pytest

from tests.contract.docs.pages import PAGES, prose


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
