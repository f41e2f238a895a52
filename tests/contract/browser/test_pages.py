"""Every kind of page: on its own, in both themes, on a phone, in print, for screen readers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.browser import checks, written
from tests.contract.browser.conftest import Open

each_page = pytest.mark.parametrize("kind", written.KINDS)


@each_page
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_checks_report_no_problem_for_any_kind_of_page(
    kind: str, pages: Mapping[str, Path], look: Open, theme: str, width: int
) -> None:
    with look(pages[kind], theme=theme, width=width) as view:
        names = checks.OF_WIDTH if width == 400 else checks.CHECKS
        assert list(checks.problems(view, names)) == []


@each_page
@pytest.mark.parametrize("how", [{"offline": True}, {"scripts": False}], ids=str)
def test_a_page_looks_the_same_without_network_and_without_scripts(
    kind: str, pages: Mapping[str, Path], look: Open, how: Mapping[str, bool]
) -> None:
    with look(pages[kind]) as usual, look(pages[kind], **how) as other:
        assert other.screenshot() == usual.screenshot()


def test_a_page_with_the_history_of_a_year_is_smaller_than_1_5_mb(
    pages: Mapping[str, Path],
) -> None:
    assert pages["year"].stat().st_size < 1_500_000


def test_a_page_shows_html_markup_in_names_as_plain_text(
    pages: Mapping[str, Path], look: Open
) -> None:
    with look(pages["hostile"]) as view:
        view.measure("unfold")
        text = view.measure("text")
        assert [markup for markup in written.HOSTILE if markup not in text] == []
        assert view.measure("count", ".injected") == 0
