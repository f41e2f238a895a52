"""The pages, and the commands that are read from them.

A command is a line of a code block that begins with a program, or with `$` in a block that shows
output; and inline code that begins with a program and has more words than that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

PROGRAMS = ("python", "pytest", "busbw", "tox", "pip", "pre-commit", "gcloud", "srun", "mpirun")
_BEGINS = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:~/\S*/)?(?:{'|'.join(PROGRAMS)})(?: |$)")
_FENCE = re.compile(r"```.*")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command, as a shell gets it; `is_block` if it stands in a block, to be run as it is."""

    page: str
    line: int
    text: str
    is_block: bool = True

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"

    @property
    def calls(self) -> list[list[str]]:
        """The words of each program that it starts, without variables, comments and `> FILE`."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="&<>|")
        lexer.whitespace_split, lexer.commenters = True, "#"
        calls: list[list[str]] = [[]]
        for word in lexer:
            if word == "&&":
                calls.append([])
            elif word == ">":
                next(lexer)
            elif calls[-1] or not re.fullmatch(r"[A-Z_]+=.*", word):
                calls[-1].append(word)
        return calls


def name_of(page: Path) -> str:
    """Return a page's path in the checkout."""
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> list[Command]:
    """List the commands of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [*_in_blocks(name_of(page), text), *_in_spans(name_of(page), text)]


def _in_blocks(page: str, text: str) -> Iterator[Command]:
    for block in blocks(text):
        prompts = [line for line in block if line[1].startswith("$ ")]
        joined = ""
        for number, line in block:
            begins = line.startswith("$ ") if prompts else _BEGINS.match(line)
            if not (joined or begins):
                continue
            joined += line.removeprefix("$ ").strip()
            if joined.endswith("\\"):
                joined = joined.removesuffix("\\")
                continue
            yield Command(page=page, line=number, text=joined)
            joined = ""


def blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield the numbered lines of each block, indented by four or fenced, without the indent."""
    fenced = False
    numbered: list[tuple[int, str]] = []
    before = ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if _FENCE.fullmatch(line):
            fenced = not fenced
        elif fenced:
            numbered.append((number, line))
            continue
        elif line.startswith("    ") and (
            numbered or not before.strip() or before.startswith("<!--")
        ):
            numbered.append((number, line.removeprefix("    ")))
            continue
        if numbered:
            yield numbered
            numbered = []
        before = line


def prose(text: str) -> str:
    """Return a page without its blocks, line by line."""
    numbers = {number for block in blocks(text) for number, _ in block}
    lines = enumerate(text.splitlines(), start=1)
    return "\n".join("" if number in numbers else line for number, line in lines)


def spans(text: str) -> Iterator[tuple[int, str]]:
    """Inline code with the number of its line."""
    for number, line in enumerate(prose(text).splitlines(), start=1):
        yield from ((number, span) for span in _SPAN.findall(line))


def _in_spans(page: str, text: str) -> Iterator[Command]:
    for number, span in spans(text):
        if _BEGINS.match(span) and len(span.split()) > 1:
            yield Command(page=page, line=number, text=span, is_block=False)
