"""A line of the history is read as strictly as a baseline, and written as it was read."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from busbw import wire
from busbw.history.lines import new_session, parsed
from busbw.model.words import FailureKind, Outcome

from .lines import line


def test_a_line_is_one_line_that_gives_itself_again() -> None:
    ordinary = line()
    assert "\n" not in ordinary.text
    assert parsed(ordinary.text, "line 1") == ordinary


def test_a_case_without_times_says_why() -> None:
    lost = line(
        outcome=Outcome.OUT_OF_MEMORY, times_us=(), ratio=None, failure=FailureKind.OUT_OF_MEMORY
    )
    assert parsed(lost.text, "line 1") == lost


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "line 3: this says 'busbw history' of version 2; accepted is 'busbw hist"),
        ({"version": True}, "line 3: this says 'busbw history' of version True; accepted is "),
        ({"document": "busbw results"}, "line 3: this says 'busbw results' of version 1; accepted"),
        ({"session": "../../etc"}, "line 3.session: expected 16 hexadecimal digits"),
        ({"at": "yesterday"}, "line 3.at: expected a moment such as 2026-01-31T03:00:00Z"),
        ({"at": "2026-02-30T03:00:00Z"}, "line 3.at: expected a moment"),
        ({"times_us": [1.0, -2.0, 3.0]}, r"line 3.times_us\[1\]: expected 1e-06 to 1e\+12"),
        ({"outcome": "GREEN"}, "line 3.outcome: "),
        ({"session_outcome": "GREEN"}, "line 3.session_outcome: "),
        ({"session_outcome": ["FINE"]}, "line 3.session_outcome: "),
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


def test_a_line_began_at_its_moment() -> None:
    assert line().began == datetime(2026, 1, 31, 3, tzinfo=timezone.utc)


def test_no_two_sessions_have_one_name() -> None:
    names = {new_session() for _ in range(100)}
    assert len(names) == 100
    assert parsed(line(session=names.pop()).text, "line 1")
