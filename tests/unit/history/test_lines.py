"""A line of the history is read strictly; and lines as earlier sessions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from busbw import wire
from busbw.history.files import HistoryLine, SeriesKey, comparable_sessions, parse_line
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from tests.helpers import build
from tests.helpers.history_lines import line, session


@pytest.mark.parametrize(
    "record",
    [
        line(),
        line(
            outcome=Outcome.OUT_OF_MEMORY,
            times_us=(),
            ratio=None,
            failure=FailureKind.OUT_OF_MEMORY,
        ),
    ],
    ids=["with times", "out of memory"],
)
def test_a_record_of_a_history_is_unchanged_after_it_is_written_and_read_back(
    record: HistoryLine,
) -> None:
    assert "\n" not in record.text
    assert parse_line(record.text, "line 1") == record


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 2}, "line 3: this says 'busbw record' of version 2; expected 'busbw rec"),
        ({"version": True}, "line 3: this says 'busbw record' of version True; expected "),
        ({"document": "busbw results"}, "line 3: this says 'busbw results' of version 1; expected"),
        ({"moment": "yesterday"}, "line 3.moment: expected a moment such as 2026-01-31T03:00:00Z"),
        ({"moment": "2026-02-30T03:00:00Z"}, "line 3.moment: expected a moment"),
        ({"times_us": [1.0, -2.0, 3.0]}, r"line 3.times_us\[1\]: expected 1e-06 to 1e\+12"),
        ({"outcome": "GREEN"}, "line 3.outcome: "),
        ({"session_outcome": "GREEN"}, "line 3.session_outcome: "),
        ({"session_outcome": ["PASS"]}, "line 3.session_outcome: "),
        ({"surprise": 1}, "line 3.surprise: unknown key"),
        ({"host": 7}, "line 3.host: "),
    ],
)
def test_an_invalid_record_of_a_history_is_refused_with_its_location(
    changes: dict[str, Any], text: str
) -> None:
    document = {**json.loads(line().text), **changes}
    with pytest.raises(wire.WireError, match=f"^{text}"):
        parse_line(json.dumps(document), "line 3")


_FIRST, _SECOND = "0" * 16, "1" * 16
CASE = build.case()
OTHER = build.case(payload_bytes=8192)


def _line(**changes: Any) -> HistoryLine:
    return line(session=_FIRST, case=changes.pop("case", CASE), **changes)


def test_an_earlier_session_has_the_time_at_which_it_began_and_the_times_of_all_its_cases() -> None:
    (session,) = comparable_sessions(
        [_line(), _line(case=OTHER, times_us=(20.0,))], SeriesKey(framework="jax")
    )
    assert session.began == datetime(2026, 1, 31, 3, tzinfo=UTC)
    assert session.times_s.keys() == {CASE, OTHER}
    assert session.times_s[CASE] == pytest.approx((11.25e-6, 11.5e-6, 11.375e-6))
    assert session.times_s[OTHER] == pytest.approx((20e-6,))


def test_an_earlier_session_has_its_versions_and_flags_and_host_and_the_hash_of_busbw() -> None:
    (session,) = comparable_sessions([_line()], SeriesKey(framework="jax"))
    ((record,), *_) = session.records.values()
    assert record.setup == {
        "jax": "0.10.0",
        "XLA_FLAGS": "--xla_one=1",
        "host": "tpu-vm-7",
        "busbw's own code": "fedcba9876543210",
    }


def test_records_of_a_session_are_joined_even_if_other_records_are_between_these_records() -> None:
    lines = [*session(_FIRST), *session(_SECOND)]
    sessions = comparable_sessions(
        [lines[0], lines[2], lines[1], lines[3]], SeriesKey(framework="jax")
    )
    assert [len(session.times_s) for session in sessions] == [2, 2]


def test_an_earlier_session_of_a_framework_has_no_case_of_another_framework() -> None:
    lines = [_line(), _line(case=build.case(framework="tensorflow"))]
    assert [
        list(session.times_s) for session in comparable_sessions(lines, SeriesKey(framework="jax"))
    ] == [[CASE]]
    assert comparable_sessions(lines, SeriesKey(framework="fake")) == []


@pytest.mark.parametrize(
    ("changes", "has_change"),
    [
        *(
            ({"outcome": outcome}, outcome in (Outcome.REGRESSED, Outcome.IMPROVED))
            for outcome in Outcome
        ),
        *(
            (
                {"session_outcomes": (outcome,)},
                outcome
                in (SessionOutcome.MACHINE_SHIFT, SessionOutcome.SLOWER, SessionOutcome.DRIFT),
            )
            for outcome in SessionOutcome
        ),
    ],
)
def test_an_earlier_session_counts_as_changed_only_if_a_case_or_all_cases_changed(
    changes: dict[str, Any], has_change: bool
) -> None:
    (session,) = comparable_sessions(
        [_line(**changes), _line(case=OTHER)], SeriesKey(framework="jax")
    )
    assert session.has_change is has_change


@pytest.mark.parametrize(
    "changes",
    [
        {"injected": "delay:50%"},
        {"paired": True},
        {"times_us": (), "failure": FailureKind.OUT_OF_MEMORY},
    ],
)
def test_earlier_sessions_do_not_include_injected_or_interleaved_or_failed_records(
    changes: dict[str, Any],
) -> None:
    assert comparable_sessions([_line(**changes)], SeriesKey(framework="jax")) == []
    (session,) = comparable_sessions(
        [_line(**changes), _line(case=OTHER)], SeriesKey(framework="jax")
    )
    assert list(session.times_s) == [OTHER]


REFERENCE: dict[str, Any] = {"paired": True, "stack": "0123456789abcdef", "is_reference": True}


def test_each_of_two_interleaved_stacks_has_its_own_series_of_sessions() -> None:
    lines = [
        replace(_line(), **REFERENCE),
        replace(_line(), **REFERENCE | {"session": "1" * 16, "stack": "another"}),
        replace(_line(), **REFERENCE | {"session": "2" * 16, "is_reference": False}),
    ]
    series = SeriesKey(framework="jax", stack=REFERENCE["stack"], is_reference=True)
    (session,) = comparable_sessions(lines, series)
    assert session.began == lines[0].began
    assert len(comparable_sessions(lines, replace(series, is_reference=False))) == 1
    assert comparable_sessions(lines, replace(series, framework="tensorflow")) == []
    assert comparable_sessions(lines, SeriesKey(framework="jax")) == []


def test_the_text_of_a_series_names_its_framework_and_its_reference() -> None:
    series = SeriesKey(framework="jax", stack="0123456789abcdef")
    assert series.text == "jax interleaved with the reference 0123456789abcdef"
    assert replace(series, is_reference=True).text == "the reference 0123456789abcdef of jax"
    assert replace(series, stack="").text == "jax"
