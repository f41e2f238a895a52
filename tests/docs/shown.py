"""The output that a page shows below a command, compared with the output that is printed.

Numbers, and lines about the machine, differ from run to run; all other words must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import blocks

CUT = "..."
# Names the devices and versions of the machine.
_OF_MACHINE = ("busbw device: ",)
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[KMG]|s)?")


def shown(page: Path) -> dict[str, list[str]]:
    """Return the lines below each command of a page that shows its output, without cut ones."""
    found: dict[str, list[str]] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        lines: list[str] = []
        for _, line in block:
            if line.startswith("$ "):
                lines = found[line.removeprefix("$ ")] = []
            elif line.strip() != CUT:
                lines.append(line)
    return {command: lines for command, lines in found.items() if lines}


def unprinted(lines: list[str], printed: str) -> list[str]:
    """Return those of `lines` whose words are not in the printed text, in this order."""
    remaining = iter([_words(line) for line in printed.splitlines()])
    return [
        line
        for line in lines
        if line.strip() and not line.startswith(_OF_MACHINE) and not _is_among(line, remaining)
    ]


def _is_among(line: str, remaining: Iterator[str]) -> bool:
    wanted = _words(line)
    if wanted.endswith(CUT):
        return any(words.startswith(wanted.removesuffix(CUT)) for words in remaining)
    return wanted in remaining


def _words(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).replace("=", " ").split())
