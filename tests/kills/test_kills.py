"""What is hit, what that may cost, what is left of a history; and `python -m kills` itself."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from busbw.history.files import append
from kills.__main__ import table
from kills.ground import PAYLOADS, Ground
from kills.hits import LAYOUTS, LEAVING, MEASURING, MOMENTS, Hit, Ran, drawn, surprises
from tests.history import lines

WHY = "the worker was killed (SIGKILL) while measuring jax.all_reduce.psum.float32.1K"
LOST: dict[str, Any] = {
    "exit_code": 1,
    "lost": 1,
    "failures": (WHY,),
    "said": f"test session\nFAILED: killed in 1 of 2 launches: {WHY}\n",
}
ENDED: dict[str, Any] = {"lost": None}
FOLDER = ("busbw-0.a",)


def ran(target: str = "worker", sent: signal.Signals = SIGKILL, **changes: Any) -> Ran:
    return Ran(hit=Hit(target=target, signal=sent, moment=MEASURING), **changes)


def unexpected(one: Ran) -> str:
    """The last column of the table, which has one row for this."""
    *_, row = table("local", [one])
    return row.split(" | ")[-1].strip(" |")


@pytest.mark.parametrize(
    "one",
    [
        ran(),
        ran(**LOST),
        ran("agent", **LOST),
        ran("session", SIGSTOP),
        ran("session", exit_code=-9, folders=FOLDER, **ENDED),
        ran("session", SIGTERM, exit_code=-15, folders=FOLDER, **ENDED),
        ran("session", SIGINT, exit_code=2, **ENDED),
        # It came when all was done.
        ran("session", SIGINT, exit_code=-2),
        ran("session", struck=False),
    ],
)
def test_what_a_hit_has_to_cost_is_no_surprise(one: Ran) -> None:
    assert list(surprises(one)) == []
    assert unexpected(one) == "0"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (ran(left=("process 7",)), "left: process 7"),
        (ran(folders=FOLDER), "left: busbw-0.a"),
        (ran(exit_code=None), "the session never ended"),
        (ran(exit_code=4, **ENDED), "no results, exit code 4"),
        (ran(exit_code=1), "exit code 1 with 0 lost"),
        (ran(**LOST | {"lost": 3}), "3 lost by one hit"),
        (ran(**LOST | {"failures": ("as it left",)}), "lost while nothing was measured"),
        (ran(**LOST | {"said": "FINE: 7 cases measured"}), "lost and not said"),
        (ran(**LOST | {"exit_code": 0}), "exit code 0 with 1 lost"),
        (ran(**LOST, green=("1K is PASS",)), "lost and 1K is PASS"),
        (ran("session", SIGINT, exit_code=0, **ENDED), "exit code 0, expected 2"),
        (ran("session", SIGINT, exit_code=2, folders=FOLDER, **ENDED), "left: busbw-0.a"),
        (ran("session", SIGSTOP, lost=1), "1 lost"),
        (ran("session", exit_code=0, **ENDED), "exit code 0, expected -9"),
    ],
)
def test_what_is_more_is_said_in_words_and_counted(one: Ran, said: str) -> None:
    assert list(surprises(one)) == [said]
    assert unexpected(one) == "1"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_signal_to_everything_comes_in_every_part_of_a_session(layout: Any) -> None:
    every = len(layout.targets) * len(layout.signals) * len(MOMENTS)
    hits = drawn(layout, 2 * every, 1)
    counted = Counter((hit.target, hit.signal, hit.moment) for hit in hits)
    assert len(counted) == every and set(counted.values()) == {2}
    assert {hit.member for hit in hits} == ({""} if layout.members == 1 else {"0", "1"})
    assert all(0.1 <= hit.fraction <= 0.9 for hit in hits)
    assert {hit.launch for hit in hits if hit.moment == LEAVING} == {1}
    assert {hit.launch for hit in hits if hit.moment == MEASURING} == {1, 2}


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    local = LAYOUTS["local"]
    assert drawn(local, 20, 1) == drawn(local, 20, 1) != drawn(local, 20, 2)


OURS = "aaaaaaaaaaaaaaaa"
WHOLE = len(PAYLOADS)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    found = Ground(tmp_path)
    for root in (tmp_path / "before" / "history", found.history):
        append(root, lines.KEY, lines.session(lines.SESSION))
    return found


def appended(ground: Ground, cases: int) -> Path:
    return append(ground.history, lines.KEY, lines.session(OURS, cases)).path


def damage(ground: Ground, *, ended: bool) -> list[str]:
    return ground.damage(stored=WHOLE, ended=ended)


def test_a_whole_session_is_no_damage_and_none_is_none_where_it_was_ended(ground: Ground) -> None:
    assert damage(ground, ended=True) == []
    path = appended(ground, WHOLE)
    assert damage(ground, ended=False) == []
    path.write_bytes(path.read_bytes() + b'{"torn')
    (torn,) = damage(ground, ended=True)
    assert f"{path}: line 10, column 2: not JSON" in torn


def test_a_session_that_went_on_has_appended_and_a_part_of_one_is_damage(ground: Ground) -> None:
    (missing,) = damage(ground, ended=False)
    assert missing == "the history has 0 lines of the session, expected 7"
    appended(ground, 3)
    (part,) = damage(ground, ended=True)
    assert part == "the history has 3 lines of the session, expected 7"


def test_a_line_that_was_there_and_is_not_is_damage(ground: Ground) -> None:
    path = appended(ground, WHOLE + 1)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert damage(ground, ended=False) == ["the history has lost lines"]


def test_a_history_that_cannot_be_read_is_damage(ground: Ground) -> None:
    path = appended(ground, WHOLE)
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    (said,) = damage(ground, ended=False)
    assert str(path) in said


def test_a_file_beside_the_baselines_is_damage(ground: Ground) -> None:
    appended(ground, WHOLE)
    ground.baselines.mkdir()
    (ground.baselines / "x.json.part").write_text("{}")
    assert damage(ground, ended=False) == ["x.json.part is new or gone"]


ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_some_hits_leave_nothing_and_stand_in_the_table() -> None:
    command = [sys.executable, "-m", "kills", "--framework=fake", "--kills=5", "--seed=18"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.splitlines()
    assert title.startswith("| layout | hit | times |")
    assert sum(int(row.split(" | ")[2]) for row in rows) == 5


def test_they_need_pytest_and_busbw_and_busbw_needs_none_of_them() -> None:
    found = {name.partition(".")[0] for name in imported("kills")}
    assert found - set(sys.stdlib_module_names) == {"busbw", "pytest"}
    assert not {"kills", "tests"} & {name.partition(".")[0] for name in imported("busbw")}


def imported(folder: str) -> set[str]:
    """The modules that are imported anywhere below `folder`."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module)
    return found
