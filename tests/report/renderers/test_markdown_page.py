"""Pages of Markdown: items, sections, and the text around them."""

from __future__ import annotations

from pathlib import Path

from busbw.report.renderers.markdown import filled, item

LONG = "a-word-with-hyphens " * 8


def test_an_item_is_wrapped_below_its_own_beginning_and_no_word_is_broken() -> None:
    first, second = item(LONG, "  ")
    assert first.startswith("  - a-word") and second.startswith("    a-word")
    assert max(map(len, (first, second))) <= 100
    assert all(word == "a-word-with-hyphens" for word in second.split())


def test_sections_stand_where_the_text_names_them(tmp_path: Path) -> None:
    text = tmp_path / "one.md"
    text.write_text("# One\n\n{figures}\n\nThe end\n")
    lines = filled(text, figures=["{a}", "b"])
    assert lines == ["# One", "", "{a}", "b", "", "The end"]
