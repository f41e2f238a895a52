"""What pages of Markdown are made of: items of a list, sections, and text that is set around them.

The text of a page is a file of its own, with ``{name}`` where figures belong.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from importlib.resources.abc import Traversable

from .renderers import rendered
from .table import Table

_WIDTH = 100


def item(text: str, indent: str = "") -> list[str]:
    """An item of a list, wrapped without breaking a word."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{indent}- ",
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def section(heading: str, table: Table, before: Iterable[str] = ()) -> list[str]:
    """A heading, lines below it, and a table."""
    return [f"### {heading}", "", *before, *rendered("markdown", table)]


def filled(text: Traversable, **sections: Iterable[str]) -> list[str]:
    """The lines of a page: in place of each ``{name}`` of `text` the lines of that section."""
    page = text.read_text(encoding="utf-8").removesuffix("\n")
    return page.format(**{name: "\n".join(one) for name, one in sections.items()}).split("\n")
