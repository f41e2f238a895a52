"""The house on a budget: no room grows by a line, a file or a statement that is not written here.

Prose and code that is kept as data (``.html``, ``.css``, ``.md`` and such) counts as lines.
A limit comes down with what made it smaller. It is raised by its line of this table alone, whose
comment says why, and what the new code replaced.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Files that hold code or prose; recordings and pictures (.json in evidence/, .gz, .svg) do not.
_TEXT = {".html", ".css", ".toml", ".txt", ".md", ".json", ".yml"}

# room: lines, files, statements.
LIMITS = {
    ".github": (438, 2, 227),
    "bench": (1_382, 13, 798),
    "busbw": (47_047, 302, 22_750),
    "busbw/*": (1_661, 10, 880),
    "busbw/agent": (2_025, 16, 1_113),
    "busbw/baselines": (1_535, 8, 721),
    "busbw/collectives": (573, 8, 270),
    "busbw/commands": (2_734, 16, 1_354),
    "busbw/driver": (3_347, 22, 1_873),
    "busbw/frameworks": (122, 4, 29),
    "busbw/hardware": (708, 4, 185),
    "busbw/history": (901, 6, 418),
    "busbw/judge": (3_207, 15, 1_464),
    "busbw/launchers": (392, 6, 190),
    "busbw/model": (2_617, 12, 1_064),
    "busbw/plugin": (5_770, 30, 2_733),
    "busbw/report": (6_642, 53, 3_126),
    "busbw/stacks": (874, 7, 465),
    "busbw/stats": (610, 7, 302),
    "busbw/studies": (3_333, 16, 1_457),
    "busbw/traces": (2_148, 10, 1_153),
    "busbw/worker": (7_336, 48, 3_769),
    "busbw/workloads": (512, 4, 184),
    "evidence": (2_724, 22, 1_252),
    "kills": (1_567, 16, 839),
    "perf": (34, 4, 11),
    "tests": (58_123, 529, 30_009),
}

# docs: pages, words.
DOCS = 32, 50_747


def sizes(files: Iterable[tuple[str, str]]) -> dict[str, Counter[str]]:
    """Lines, files and statements by room, of (path, text)."""
    total: dict[str, Counter[str]] = {}
    for path, text in files:
        for room in _rooms(path):
            total.setdefault(room, Counter()).update(_size(path, text))
    return total


def _rooms(path: str) -> Iterator[str]:
    first, *rest = path.split("/")
    yield first
    if first == "busbw":
        yield f"busbw/{rest[0]}" if len(rest) > 1 else "busbw/*"


def _size(path: str, text: str) -> Counter[str]:
    lines = Counter(lines=text.count("\n"))
    return lines + Counter(files=1, statements=_statements(text)) if path.endswith(".py") else lines


def _statements(text: str) -> int:
    """Without docstrings."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    return sum(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes
    )


def exceeded(found: dict[str, Counter[str]]) -> list[str]:
    """What is over its limit, or has none."""
    over = []
    for room, size in sorted(found.items()):
        for what, limit in zip(("lines", "files", "statements"), LIMITS[room], strict=True):
            if size[what] > limit:
                over.append(f"{room}: {size[what]} {what}, at most {limit}")
    return over


@pytest.fixture(scope="module")
def found() -> dict[str, Counter[str]]:
    """The sizes of all rooms as they are."""
    return sizes((path.relative_to(ROOT).as_posix(), path.read_text()) for path in _files())


def _files() -> Iterator[Path]:
    for top in ("busbw", "tests", "bench", "evidence", "kills", "perf", ".github"):
        for path in sorted((ROOT / top).rglob("*.*")):
            if path.suffix == ".py" or (top == "busbw" and path.suffix in _TEXT):
                yield path


def test_no_room_exceeds_its_budget(found: dict[str, Counter[str]]) -> None:
    assert exceeded(found) == []


@pytest.mark.parametrize(
    ("path", "room"),
    [("busbw/judge/rule.py", "busbw/judge"), ("busbw/report/page/page.css", "busbw/report")],
)
def test_one_line_too_many_is_red(found: dict[str, Counter[str]], path: str, room: str) -> None:
    limit = LIMITS[room][0]
    more = sizes([(path, "\n" * (limit - found[room]["lines"] + 1))])[room]
    assert exceeded({room: found[room] + more})[0] == f"{room}: {limit + 1} lines, at most {limit}"


def test_pages_and_words_of_the_docs_keep_to_their_budget() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    words = sum(len(page.read_text().split()) for page in pages)
    assert (len(pages) <= DOCS[0], words <= DOCS[1]) == (True, True), (len(pages), words)
