"""Every link between pages leads to a page and a heading that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.docs.pages import PAGES, ROOT, anchors, links, name_of

each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def _broken(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    if not linked.exists() or ROOT not in (linked, *linked.parents):
        return True
    return bool(anchor) and anchor not in anchors(linked)


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    local = [(line, one) for line, one in links(page) if not one.startswith("https://")]
    assert [f"{line}: {one}" for line, one in local if _broken(page, one)] == []


@each_page
def test_a_page_begins_with_one_heading_and_what_a_reader_gets(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    first, second = [line for line in text.splitlines() if line and "<!--" not in line][:2]
    assert first.startswith("# ")
    assert re.match(r"[A-Z`]", second) or name_of(page) == "README.md"


def test_every_page_is_in_the_contents() -> None:
    contents = ROOT / "docs" / "README.md"
    listed = {target.partition("#")[0] for _, target in links(contents)}
    there = {path.name for path in contents.parent.iterdir() if path.suffix in (".md", ".json")}
    assert there - listed == {"README.md"}
    outside = {"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../studies/README.md"}
    assert listed - there <= outside


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## Two stacks in turn: `--against`", "two-stacks-in-turn---against"),
        ("# What is measured, and how", "what-is-measured-and-how"),
    ],
)
def test_an_anchor_is_what_github_makes_of_a_heading(
    tmp_path: Path, heading: str, anchor: str
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{heading}\n\ntext\n\n{heading}\n")
    assert anchors(page) == [anchor, f"{anchor}-1"]


def test_broken_links_are_seen() -> None:
    page = ROOT / "README.md"
    assert not _broken(page, "docs/verdict.md#the-evidence")
    assert _broken(page, "docs/verdict.md#no-such-heading")
    assert _broken(page, "docs/none.md")
    assert _broken(page, "../outside.md")
