"""Each check of pages reports no problem of a good page, and reports a page with one fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.browser import checks
from tests.contract.browser.conftest import Open

PASS = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fine</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; --text: #111; --back: #fff; --muted: #555 }
@media (prefers-color-scheme: dark) { :root { --text: #eee; --back: #111; --muted: #aaa } }
html { background: var(--back); color: var(--text); font: 16px sans-serif }
svg text { fill: var(--muted); font-size: 12px }
svg { max-width: 100% } table { font-size: 14px }
@media print { details::details-content { content-visibility: visible } }
</style></head><body>
<main><h1>Fine</h1><h2 id="a">A</h2><p>Text with <a href="#a">a link</a></p>
<svg role="img" viewBox="0 0 300 100" width="300"><title>A curve</title>
<text y="20">label</text></svg>
<svg aria-hidden="true" viewBox="0 0 10 10" width="10"><path d="M0 0L9 9"/></svg>
<details><summary>Table</summary><table><caption>Values</caption>
<tr><th scope="col">payload</th><th scope="col">time</th></tr>
<tr><th scope="row">1K</th><td>12.5 us</td></tr></table></details></main></body></html>
"""

IMAGE = '<img alt="x" src="x.png"><p>'
# A check, what is replaced and by what, and words of what it says.
FAULTS = [
    ("requests", "<p>", IMAGE, "x.png"),
    ("requests", "<style>", "<style>@import 'more.css';", "more.css"),
    ("messages", "<p>", IMAGE, "error: Failed to load"),
    ("messages", "<p>", "<script>alert('dialog here')</script><p>", "dialog: dialog here"),
    ("messages", "<p>", "<script>throw Error('broken')</script><p>", "error: broken"),
    ("active", "<p>", "<script></script><p>", "<script>"),
    ("active", "<p>", "<p onclick='1'>", "onclick of <p>"),
    ("active", 'href="#a"', 'href="javascript:1"', "href of <a>"),
    ("active", "<path", '<use href="other.svg#a"/><path', "href of <use>"),
    ("too_wide", "<p>", "<p style='white-space: pre; width: 3000px'>", "<p>"),
    ("too_small", "font-size: 12px", "font-size: 8px", '8.0 px: <text> "label"'),
    ("too_small", 'width="300"><title>', 'width="150"><title>', '6.0 px: <text> "label"'),
    ("headings", "<h2", "<h3", 'a level is left out before h3 "A"'),
    ("headings", "<h2", "<h1>Again</h1><h2", "2 h1"),
    ("headings", "<h1>Fine</h1>", "", '0 h1, first h2 "A"'),
    ("headings", "<h1>Fine", "<h1>", "an empty h1"),
    ("tables", "<caption>Values</caption>", "", "no caption"),
    ("tables", ' scope="row"', "", 'no scope: <th> "1K"'),
    ("tables", "<td>12.5 us</td>", "", "row 2 has another width"),
    ("nameless", "<title>A curve</title>", "", '<svg role="img"'),
    ("nameless", ' aria-hidden="true"', "", "<svg viewBox"),
    ("broken", 'href="#a"', 'href="#b"', "nothing is at #b"),
    ("broken", "<p>", '<p id="a">', "the id a twice"),
    ("broken", "<p>", '<p aria-labelledby="c">', "no element c"),
    ("faint", "svg text {", "svg text { fill-opacity: 0.4;", '"label"'),
    ("colliding", "</text>", '</text><text x="9" y="22">x</text>', "'label' and 'x'"),
    ("violations", "color: var(--text)", "color: #ccc", "color-contrast"),
    ("violations", "12.5 us", '<a href="#a"></a>', "link-name"),
    ("themes", "--back: #111", "--back: #fff", "dark: rgb(238, 238, 238) on rgb(255, 255, 255)"),
    ("themes", "--text: #111", "--text: #ddd", "light: rgb(221, 221, 221) on rgb(255, 255, 255)"),
    ("themes", "color-scheme: light dark", "color-scheme: light", "own parts are rgb(255, 255"),
    ("themes", "fill: var(--muted)", "fill: #777", "texts of pictures are rgb(119, 119, 119) in"),
    ("printed", "content-visibility: visible", "color: red", "not printed: 12.5 us"),
    ("printed", "font-size: 12px", "font-size: 7px", "5.2 pt: label"),
    ("printed", "<td>", "<td style='display: none'>", "hidden: 12.5 us"),
    ("printed", "<td>", "<td style='white-space: pre; padding: 50em'>", "717 px"),
]


def _write_page(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text)
    return path


@pytest.mark.parametrize("how", [{}, {"width": 400}, {"theme": "dark"}], ids=str)
def test_the_page_checks_report_no_problem_for_a_page_without_faults(
    tmp_path: Path, look: Open, how: dict[str, object]
) -> None:
    with look(_write_page(tmp_path, PASS), **how) as view:
        assert list(checks.problems(view)) == []


def test_each_page_check_reports_a_page_that_has_a_fault_for_this_check(
    tmp_path: Path, look: Open
) -> None:
    assert {name for name, *_ in FAULTS} == set(checks.CHECKS)
    for name, before, after, message in FAULTS:
        assert before in PASS
        with look(_write_page(tmp_path, PASS.replace(before, after, 1))) as view:
            assert message in "\n".join(checks.problems(view, [name])), (name, after)
