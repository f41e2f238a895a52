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

# room: lines, files, statements. `busbw/session` took the place of most of `busbw/plugin`: the
# phases, which knew no pytest but lay there. `tests` rose by 119 lines: marks that leave variants
# to `exhaustive`, which took a third off the gate's time, and two tests of what had none.
# What tells of a night (`busbw summary`, `doctor`, `history fetch`, metrics, CSV) took the place of
# the scripts in `.github/`, 440 lines. `busbw/commands` and `busbw/studies` rose by 150 lines as
# their options became declarations, in the place of calls and adapters with 50 statements more, and
# by 190 as the doctor keeps a recording and compares memory, noise and links with what is known.
# `busbw/model` took the curve and the group of sizes from `busbw/judge`, and members of a cluster
# from `busbw/driver` and `busbw/hosts`: copies of them in `busbw/report` and `busbw/plugin` went.
# `busbw/hosts` and `busbw/session` rose: what no peer says, no ssh and ``--`` for a value.
# `busbw/stacks`, `busbw/traces` and `busbw/collectives` rose by what bounds a hostile lock, cache
# or recording, `busbw/commands` by two warnings: nothing was there before. `busbw/worker` rose by
# 120 lines, the doctor by 21: programs compiled once, values laid out in place, less warm-up.
# `busbw/program` (217 lines of it were in `busbw/worker`) and 950 lines elsewhere are new: the
# collectives of a user's own program. `busbw/slow` and a command are new: who of a cluster is slow.
# `busbw/bisect` and a command are new: which release did it.
LIMITS = {
    "bench": (706, 8, 401),
    "busbw": (46_438, 261, 24_600),
    "busbw/*": (1_409, 7, 791),
    "busbw/baselines": (1_145, 5, 578),
    "busbw/bisect": (929, 7, 581),
    "busbw/collectives": (578, 7, 281),
    "busbw/commands": (3_514, 16, 1_760),
    "busbw/driver": (2_313, 12, 1_328),
    "busbw/frameworks": (121, 4, 32),
    "busbw/hardware": (474, 4, 172),
    "busbw/history": (909, 5, 463),
    "busbw/hosts": (2_474, 11, 1_517),
    "busbw/judge": (2_923, 14, 1_481),
    "busbw/model": (2_824, 14, 1_329),
    "busbw/page": (3_125, 15, 1_456),
    "busbw/program": (997, 5, 625),
    "busbw/plugin": (1_070, 7, 606),
    "busbw/report": (1_772, 15, 864),
    "busbw/session": (4_736, 25, 2_492),
    "busbw/slow": (1_315, 11, 775),
    "busbw/stacks": (905, 5, 504),
    "busbw/stats": (504, 4, 270),
    "busbw/studies": (2_133, 8, 1_046),
    "busbw/traces": (1_928, 8, 1_090),
    "busbw/worker": (7_847, 47, 4_342),
    "busbw/workloads": (493, 5, 217),
    "evidence": (1_587, 11, 761),
    "kills": (502, 5, 300),
    "perf": (34, 4, 11),
    "tests": (57_452, 373, 29_426),
}

# docs: pages, words.
DOCS = 19, 25_400


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
    for top in ("busbw", "tests", "bench", "evidence", "kills", "perf"):
        for path in sorted((ROOT / top).rglob("*.*")):
            if path.suffix == ".py" or (top == "busbw" and path.suffix in _TEXT):
                yield path


def test_no_room_exceeds_its_budget(found: dict[str, Counter[str]]) -> None:
    assert exceeded(found) == []


@pytest.mark.parametrize(
    ("path", "room"),
    [("busbw/judge/rule.py", "busbw/judge"), ("busbw/page/page.css", "busbw/page")],
)
def test_one_line_too_many_is_red(found: dict[str, Counter[str]], path: str, room: str) -> None:
    limit = LIMITS[room][0]
    more = sizes([(path, "\n" * (limit - found[room]["lines"] + 1))])[room]
    assert exceeded({room: found[room] + more})[0] == f"{room}: {limit + 1} lines, at most {limit}"


def test_pages_and_words_of_the_docs_keep_to_their_budget() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    words = sum(len(page.read_text().split()) for page in pages)
    assert (len(pages) <= DOCS[0], words <= DOCS[1]) == (True, True), (len(pages), words)
