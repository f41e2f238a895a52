"""The results of all parts as one page of Markdown: each result as lines and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def page(document: Mapping[str, Any]) -> str:
    """Render each part with its result, or with the reason why it has none."""
    parts = document["parts"]
    failed = [name for name, part in parts.items() if part["problem"]]
    lines = [
        first_sentence(document),
        "",
        f"Begun {document['began']}, with Python {document['python']}.",
        f"Parts that failed: {', '.join(failed) or 'none'}.",
    ]
    for name, part in parts.items():
        lines += ["", f"## {name}", ""]
        if part["problem"]:
            lines += [f"**Failed:** {_cell(part['problem'])}", ""]
        lines += [*_lines(part["result"]), "", f"It took {part['seconds']:.0f} s."]
    text = "\n".join([*lines, "", *_health(document["health"])]) + "\n"
    return re.sub("\n{3,}", "\n\n", text)


def first_sentence(document: Mapping[str, Any]) -> str:
    way = document["transport"]["text"]
    if document["device"] == "gpu":
        return (
            f"Two processes on one GPU, {way}: this shows that the path works and is not the "
            "bandwidth of a GPU or of NVLink."
        )
    return f"Two processes on one CPU, {way}: this tries the benchmark, and says nothing of a GPU."


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each value, a table for a list of rows, and one for rows by name."""
    by_name = [{"": name, **row} for name, row in result.items() if isinstance(row, Mapping)]
    is_table = len(by_name) > 1 and len({tuple(row) for row in by_name}) == 1
    for name, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from ("", *_table(value), "")
        elif not (is_table and isinstance(value, Mapping)):
            yield f"- {name}: {_cell(value)}"
    if is_table:
        yield from ("", *_table(by_name))


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table with a column for each key of any row."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(_cell(row.get(head, '')) for head in heads)} |"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(part)}" for name, part in value.items())
    return str(value).replace("|", "\\|").replace("\n", " ")


def _health(health: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    before, after = (dict(_leaves(health[name])) for name in ("before", "after"))
    names = sorted((before.keys() | after.keys()) - {"counters/at_s", "counters/host"})
    rows = [
        {"counter": name, "before": before.get(name, ""), "after": after.get(name, "")}
        for name in names
    ]
    changed = [
        row
        for row in rows
        if row["before"] != row["after"]
        or "error" in row["counter"]
        or (row["counter"].endswith("problem") and row["before"])
    ]
    yield from ("## health", "", "Counters that changed, and every count of errors:", "")
    yield from _table(changed) if changed else ("None.",)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{name}/{key}" if name else key)
    else:
        yield name, value
