"""Every kind of page: on its own, in both themes, on a phone, in print, for screen readers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from . import checks, written
from .conftest import Open

WIDTHS = (1280, 400)
both_themes = pytest.mark.parametrize("theme", ["light", "dark"])
both_widths = pytest.mark.parametrize("width", WIDTHS)


def test_a_page_asks_for_nothing_but_its_file_and_nothing_goes_wrong(
    page: Path, look: Open
) -> None:
    with look(page) as found:
        assert checks.requests(found) == []
        assert checks.said(found) == []
        assert checks.active(found) == []


@pytest.mark.parametrize("how", [{"offline": True}, {"scripts": False}], ids=str)
def test_a_page_looks_the_same_without_network_and_without_scripts(
    page: Path, look: Open, how: Mapping[str, bool]
) -> None:
    with look(page) as usual, look(page, **how) as other:
        assert other.screenshot() == usual.screenshot()


def test_colours_are_those_that_the_reader_prefers(page: Path, look: Open) -> None:
    with look(page) as light, look(page, theme="dark") as dark:
        assert checks.themes(light, dark) == []


@both_widths
def test_nothing_reaches_beyond_the_window(page: Path, look: Open, width: int) -> None:
    with look(page, width=width) as found:
        assert checks.too_wide(found) == []
        found.unfold()
        assert checks.too_wide(found) == []


@both_widths
def test_every_text_is_large_enough_to_be_read(page: Path, look: Open, width: int) -> None:
    with look(page, width=width) as found:
        assert checks.too_small(found) == []


@both_themes
@both_widths
def test_every_text_of_a_picture_has_contrast(
    page: Path, look: Open, theme: str, width: int
) -> None:
    with look(page, theme=theme, width=width) as found:
        assert checks.faint(found) == []


@both_widths
def test_no_text_of_a_picture_covers_another(page: Path, look: Open, width: int) -> None:
    with look(page, width=width) as found:
        assert checks.colliding(found) == []


@both_themes
@both_widths
def test_no_rule_of_wcag_is_broken(page: Path, look: Open, theme: str, width: int) -> None:
    with look(page, theme=theme, width=width) as found:
        assert checks.violations(found) == []


def test_headings_tables_pictures_and_links_are_what_a_screen_reader_needs(
    page: Path, look: Open
) -> None:
    with look(page) as found:
        assert checks.headings(found) == []
        assert checks.tables(found) == []
        assert checks.pictures(found) == []
        assert checks.references(found) == []


@both_themes
def test_what_is_folded_is_in_print(page: Path, look: Open, theme: str) -> None:
    with look(page, theme=theme) as found:
        assert checks.of_pdf(found) == []
    # A sheet of A4 within its margins.
    with look(page, theme=theme, width=717, medium="print") as found:
        assert checks.folded_in_print(found) == []
        assert checks.too_wide(found) == []


@pytest.mark.parametrize("kind", ["hostile", "hostile-nights"])
def test_what_names_hold_is_shown_as_text(kind: str, pages: Mapping[str, Path], look: Open) -> None:
    with look(pages[kind]) as found:
        found.unfold()
        text = found.measure("text")
        named = written.HOSTILE if kind == "hostile" else written.HOSTILE[:-1]
        assert [one for one in named if one not in text] == []
        assert found.measure("count", ".injected") == 0
