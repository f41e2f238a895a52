"""What is told of a history after a session: nothing if it is whole, and else what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.history.files import append
from kills.ground import PAYLOADS, Ground
from tests.history import lines

OURS = "aaaaaaaaaaaaaaaa"
WHOLE = len(PAYLOADS)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    found = Ground(tmp_path)
    for root in (tmp_path / "before" / "history", found.history):
        append(root, lines.KEY, lines.session(lines.SESSION))
    return found


def appended(ground: Ground, cases: int) -> Path:
    return append(ground.history, lines.KEY, lines.session(OURS, cases))[0]


def damage(ground: Ground, *, ended: bool) -> list[str]:
    return ground.damage(stored=WHOLE, ended=ended)


def test_a_whole_session_is_no_damage_and_none_is_none_where_it_was_ended(ground: Ground) -> None:
    assert damage(ground, ended=True) == []
    path = appended(ground, WHOLE)
    assert damage(ground, ended=False) == []
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert damage(ground, ended=True) == []


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
