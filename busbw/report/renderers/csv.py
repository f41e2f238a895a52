"""A table as CSV: raw values below the columns' ids, which hold the units; empty where none is."""

from __future__ import annotations

import csv
import io

from ..table import Table, TextLine


def render(table: Table) -> list[TextLine]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.id for column in table.columns])
    writer.writerows([row.values[column.id] for column in table.columns] for row in table.rows)
    return [TextLine(line) for line in text.getvalue().splitlines()]
