"""The output that a page shows below a command, compared with the output that is printed.

Numbers, and lines about the machine, differ from run to run; all other words must be the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.docs.pages import blocks

CUT = "..."
# Names the devices and versions of the machine.
_OF_MACHINE = ("busbw device: ",)
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[KMG]|s)?")


def read_outputs(page: Path) -> dict[str, list[str]]:
    """Return the lines below each command of a page that shows its output, without cut ones."""
    outputs: dict[str, list[str]] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        lines: list[str] = []
        for _, line in block:
            if line.startswith("$ "):
                lines = outputs[line.removeprefix("$ ")] = []
            elif line.strip() != CUT:
                lines.append(line)
    return {command: lines for command, lines in outputs.items() if lines}


def unprinted(lines: list[str], printed: str) -> list[str]:
    """Return those of `lines` whose words are not in the printed text, in this order."""
    texts = [_words(line) for line in printed.splitlines()]
    missing = []
    for line in lines:
        if not line.strip() or line.startswith(_OF_MACHINE):
            continue
        place = next((n for n, text in enumerate(texts, 1) if _is_same(_words(line), text)), None)
        if place is None:
            missing.append(line)
        else:
            del texts[:place]
    return missing


def _is_same(expected: str, text: str) -> bool:
    cut = expected.endswith(CUT)
    return text.startswith(expected.removesuffix(CUT)) if cut else text == expected


def _words(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).replace("=", " ").split())
