"""A table as JSON: a list with an object for each row, raw values by the columns' ids."""

from __future__ import annotations

import json

from ..table import Table, TextLine


def render(table: Table) -> list[TextLine]:
    """The rows alone; ids hold the units, and what is missing is null."""
    rows = [{one.id: row.values[one.id] for one in table.columns} for row in table.rows]
    return [TextLine(line) for line in json.dumps(rows, indent=1).splitlines()]
