"""Each check finds what it is for: a page that is fine, and the same with one fault."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import checks
from .chromium import Opened
from .conftest import Open

FINE = """\
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

Check = Callable[[Opened], list[str]]
PRINTED = {"width": 717, "medium": "print"}

# A check, what is replaced and by what, words of what it says, and how the page is looked at.
FAULTS = [
    (checks.requests, "<p>", '<img alt="x" src="x.png"><p>', "x.png"),
    (checks.requests, "<p>", '<img alt="x" src="http://127.0.0.1:9/x"><p>', "127.0.0.1:9/x"),
    (checks.requests, "<style>", "<style>@import 'more.css';", "more.css"),
    (checks.said, "<p>", '<img alt="x" src="x.png"><p>', "error: Failed to load"),
    (checks.said, "<p>", "<script>alert('dialog here')</script><p>", "dialog: dialog here"),
    (checks.said, "<p>", "<script>throw Error('broken')</script><p>", "error: broken"),
    (checks.active, "<p>", "<script></script><p>", "<script>"),
    (checks.active, "<p>", "<p onclick='1'>", "onclick of <p>"),
    (checks.active, 'href="#a"', 'href="javascript:1"', "href of <a>"),
    (checks.active, "<p>", "<iframe></iframe><p>", "<iframe>"),
    (checks.active, "<p>", '<img alt="x" src="x.png"><p>', "src of <img>"),
    (checks.active, "<path", '<use href="other.svg#a"/><path', "href of <use>"),
    (checks.too_wide, "svg { max-width: 100% }", "svg { width: 2000px }", "2008 px wide"),
    (checks.too_wide, "<p>", "<p style='white-space: pre; width: 3000px'>", "<p>"),
    (checks.too_small, "font-size: 12px", "font-size: 8px", '8.0 px: <text> "label"'),
    (checks.too_small, "table { font-size: 14px }", "table { font-size: 8px }", "8.0 px: <th>"),
    (checks.too_small, 'width="300"><title>', 'width="150"><title>', '6.0 px: <text> "label"'),
    (checks.headings, "<h2", "<h3", "h1 'Fine', then h3"),
    (checks.headings, "<h2", "<h1>Again</h1><h2", "2 h1"),
    (checks.headings, "<h1>Fine</h1>", "", "0 h1, and the first heading is [[2, 'A']]"),
    (checks.headings, "<h1>Fine", "<h1>", "an empty h1"),
    (checks.tables, "<caption>Values</caption>", "", "no caption"),
    (checks.tables, ' scope="row"', "", 'no scope: <th> "1K"'),
    (checks.tables, "<td>12.5 us</td>", "", "row 2 has another width"),
    (checks.pictures, "<title>A curve</title>", "", '<svg role="img"'),
    (checks.pictures, ' role="img"', "", "<svg viewBox"),
    (checks.pictures, ' aria-hidden="true"', "", "<svg viewBox"),
    (checks.references, 'href="#a"', 'href="#b"', "nothing is at #b"),
    (checks.references, "<p>", '<p id="a">', "the id a twice"),
    (checks.references, "<p>", '<p aria-labelledby="c">', "no element c"),
    (checks.faint, "#555", "#bbb", '"label"'),
    (checks.faint, "svg text {", "svg text { fill-opacity: 0.4;", '"label"'),
    (
        checks.colliding,
        "label</text>",
        'label</text><text x="9" y="22">x</text>',
        "'label' and 'x'",
    ),
    (checks.violations, ' lang="en"', "", "html-has-lang"),
    (checks.violations, "color: var(--text)", "color: #ccc", "color-contrast"),
    (checks.violations, "<title>A curve</title>", "", "svg-img-alt"),
    (checks.violations, "12.5 us", '<a href="#a"></a>', "link-name"),
    (checks.of_pdf, "content-visibility: visible", "color: red", "not printed: 12.5 us"),
    (checks.of_pdf, "font-size: 12px", "font-size: 7px", "5.2 pt: label"),
]
PRINTED_FAULTS = [
    (checks.folded_in_print, "content-visibility: visible", "color: red", "12.5 us"),
    (checks.folded_in_print, "<td>", "<td style='display: none'>", "12.5 us"),
    (checks.too_wide, "<td>", "<td style='white-space: pre; padding: 50em'>", "717 px"),
]


def _written(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text)
    return path


def _name(fault: tuple[Check, str, str, str]) -> str:
    return f"{fault[0].__name__}-{re.sub(r'[^a-z0-9]+', '-', fault[3].lower()).strip('-')}"


@pytest.mark.parametrize("width", [1280, 400])
def test_no_check_objects_to_a_page_that_is_fine(tmp_path: Path, look: Open, width: int) -> None:
    path = _written(tmp_path, FINE)
    for check in dict.fromkeys(fault[0] for fault in FAULTS):
        with look(path, width=width) as found:
            assert check(found) == []
    with look(path, **PRINTED) as found:
        assert checks.folded_in_print(found) == checks.too_wide(found) == []
    with look(path) as light, look(path, theme="dark") as dark:
        assert checks.themes(light, dark) == []


@pytest.mark.parametrize("fault", FAULTS, ids=_name)
def test_a_fault_is_found(fault: tuple[Check, str, str, str], tmp_path: Path, look: Open) -> None:
    check, before, after, said = fault
    assert before in FINE
    with look(_written(tmp_path, FINE.replace(before, after, 1))) as found:
        assert said in "\n".join(check(found))


@pytest.mark.parametrize("fault", PRINTED_FAULTS, ids=_name)
def test_a_fault_of_the_printed_page_is_found(
    fault: tuple[Check, str, str, str], tmp_path: Path, look: Open
) -> None:
    check, before, after, said = fault
    with look(_written(tmp_path, FINE.replace(before, after, 1)), **PRINTED) as found:
        assert said in "\n".join(check(found))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("--back: #111", "--back: #fff", "dark: rgb(238, 238, 238) on rgb(255, 255, 255)"),
        ("--text: #111", "--text: #ddd", "light: rgb(221, 221, 221) on rgb(255, 255, 255)"),
        (
            "color-scheme: light dark",
            "color-scheme: light",
            "dark: the browser's own parts are rgb(255, 255, 255)",
        ),
        ("fill: var(--muted)", "fill: #777", "texts of pictures are rgb(119, 119, 119) in both"),
    ],
)
def test_colours_that_do_not_follow_the_reader_are_found(
    before: str, after: str, said: str, tmp_path: Path, look: Open
) -> None:
    path = _written(tmp_path, FINE.replace(before, after, 1))
    with look(path) as light, look(path, theme="dark") as dark:
        assert said in "\n".join(checks.themes(light, dark))


@pytest.fixture
def colours() -> Iterator[str]:
    """The address of a style sheet that hides a page's text."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/css")
            self.end_headers()
            self.wfile.write(b"main { visibility: hidden }")

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/a.css"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("how", ["scripts", "offline"])
def test_a_page_that_needs_scripts_or_the_network_looks_different_without(
    tmp_path: Path, look: Open, how: str, colours: str
) -> None:
    if how == "offline":
        change = f'<link rel="stylesheet" href="{colours}"></main>'
    else:
        change = "<noscript>needs scripts</noscript></main>"
    path = _written(tmp_path, FINE.replace("</main>", change))
    options = {"offline": True} if how == "offline" else {"scripts": False}
    with look(path) as usual, look(path, **options) as other:
        assert other.screenshot() != usual.screenshot()
