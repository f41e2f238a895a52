"""A line of the history is read as strictly as a baseline, and written as it was read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from busbw import wire
from busbw.history import at_text, new_session, parsed
from busbw.model import FailureKind, Outcome

from .lines import line


def test_a_line_is_one_line_that_gives_itself_again() -> None:
    ordinary = line()
    assert "\n" not in ordinary.text
    assert parsed(ordinary.text, "line 1") == ordinary


def test_a_case_without_times_says_why() -> None:
    lost = line(
        outcome=Outcome.OUT_OF_MEMORY,
        times_us=(),
        anchors_us=(),
        ratio=None,
        failure=FailureKind.OUT_OF_MEMORY,
    )
    assert parsed(lost.text, "line 1") == lost


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": 2}, "line 3.schema: this version reads 1, got 2"),
        ({"schema": True}, "line 3.schema: this version reads 1, got True"),
        ({"session": "../../etc"}, "line 3.session: expected 16 hexadecimal digits"),
        ({"at": "yesterday"}, "line 3.at: expected a moment such as 2026-01-31T03:00:00Z"),
        ({"at": "2026-02-30T03:00:00Z"}, "line 3.at: expected a moment"),
        ({"times_us": [1.0, -2.0, 3.0]}, r"line 3.times_us\[1\]: expected 1e-06 to 1e\+12"),
        ({"anchors_us": [1.0]}, "line 3.anchors_us: expected none, or one for each of 3 times"),
        ({"outcome": "GREEN"}, "line 3.outcome: "),
        ({"surprise": 1}, "line 3.surprise: unknown key"),
        ({"host": 7}, "line 3.host: "),
    ],
)
def test_what_no_session_appends_is_refused_with_its_location(
    changes: dict[str, Any], text: str
) -> None:
    document = {**json.loads(line().text), **changes}
    with pytest.raises(wire.WireError, match=f"^{text}"):
        parsed(json.dumps(document), "line 3")


def test_a_case_that_nothing_measures_is_refused() -> None:
    document = json.loads(line().text)
    document["case"]["ranks"] = 0
    with pytest.raises(wire.WireError, match=r"^line 3\.case\.ranks: expected 1 to 1000000, got 0"):
        parsed(json.dumps(document), "line 3")


def test_moments_are_in_utc_whatever_they_were_told_in() -> None:
    moment = datetime(2026, 2, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert at_text(moment) == "2026-01-31T23:30:00Z"
    assert line(at=at_text(moment)).began == moment


def test_no_two_sessions_have_one_name() -> None:
    names = {new_session() for _ in range(100)}
    assert len(names) == 100
    assert parsed(line(session=names.pop()).text, "line 1")
