"""Tables in Markdown that can be read as text too: nothing but their form."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose columns are as wide as their widest cell, aligned to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_row(head, widths), f"|{'|'.join('-' * (width + 1) + ':' for width in widths)}|"]
    return lines + [_row(row, widths) for row in rows]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"| {' | '.join(cell.rjust(width) for cell, width in zip(cells, widths))} |"
