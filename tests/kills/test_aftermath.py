"""What is told of a history after a session: nothing if it is whole, and else what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import history
from kills import aftermath
from kills.ground import PAYLOADS, Ground
from tests.history import lines

OURS = "aaaaaaaaaaaaaaaa"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    found = Ground(tmp_path)
    for root in (found.appended, found.history):
        history.append(root, lines.KEY, lines.session(lines.SESSION))
    return found


def appended(ground: Ground, cases: int) -> Path:
    return history.append(ground.history, lines.KEY, lines.session(OURS, cases))[0]


def test_a_whole_session_is_no_damage_and_none_is_none_where_it_was_ended(ground: Ground) -> None:
    assert aftermath.history_damage(ground, ended=True) == []
    path = appended(ground, len(PAYLOADS))
    assert aftermath.history_damage(ground, ended=False) == []
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert aftermath.history_damage(ground, ended=True) == []


def test_a_session_that_went_on_has_appended_and_a_part_of_one_is_damage(ground: Ground) -> None:
    (missing,) = aftermath.history_damage(ground, ended=False)
    assert missing == "the history has 0 lines of the session, expected 7"
    appended(ground, 3)
    (part,) = aftermath.history_damage(ground, ended=True)
    assert part == "the history has 3 lines of the session, expected 7"


def test_a_line_that_was_there_and_is_not_is_damage(ground: Ground) -> None:
    path = appended(ground, len(PAYLOADS) + 1)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert aftermath.history_damage(ground, ended=False) == ["the history has lost lines"]


def test_a_history_that_cannot_be_read_is_damage(ground: Ground) -> None:
    path = appended(ground, len(PAYLOADS))
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    (said,) = aftermath.history_damage(ground, ended=False)
    assert str(path) in said
