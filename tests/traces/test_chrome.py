"""Trace.json.gz files: names, microseconds, durations of the device; what is cut is said to be."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from busbw.traces.chrome import read_chrome
from busbw.traces.event import MOST_EVENTS, TraceError

from .written import complete, packed, process

ROWS = [
    *process(3, "/device:TPU:1", {1: "XLA Ops"}),
    complete("all-reduce.1", pid=3, tid=1, ts=10.5, dur=2.25, long_name="text", run_id="7"),
    complete("fusion.1", pid=3, tid=1, ts=13, dur=1),
    {"ph": "B", "pid": 3, "tid": 1, "ts": 20, "name": "no duration"},
]


def test_an_event_has_the_names_of_its_process_and_thread_and_its_times_in_seconds() -> None:
    event, other = read_chrome(packed(ROWS), host="h").events
    assert (event.plane, event.line, event.name) == ("/device:TPU:1", "XLA Ops", "all-reduce.1")
    assert (event.start_s, event.duration_s) == pytest.approx((10.5e-6, 2.25e-6))
    assert event.stats == {"long_name": "text", "run_id": "7"}
    assert (other.name, other.stats) == ("fusion.1", {})


def test_the_duration_of_the_device_is_truer_than_that_of_the_viewer() -> None:
    row = complete("a", pid=1, tid=1, ts=0, dur=5.0, device_duration_ps="1234567")
    (event,) = read_chrome(packed([row])).events
    assert event.duration_s == pytest.approx(1.234567e-6)


def test_names_that_come_after_the_events_hold_for_them_too() -> None:
    later = [*ROWS[2:], *ROWS[:2]]
    assert read_chrome(packed(later)).events == read_chrome(packed(ROWS)).events


def test_what_is_not_kept_is_counted() -> None:
    trace = read_chrome(packed(ROWS), keep=lambda name, _plane, _stats: name == "fusion.1")
    assert ([event.name for event in trace.events], trace.recorded) == (["fusion.1"], 2)


def test_a_list_without_the_object_around_it_is_read() -> None:
    content = gzip.compress(json.dumps(ROWS).encode(), mtime=0)
    assert len(read_chrome(content).events) == 2


@pytest.mark.parametrize(("most", "cut"), [(3, False), (2, True), (1, True)])
def test_a_recording_with_as_many_events_as_profilers_write_is_cut(
    most: int, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.traces.chrome.MOST_EVENTS", most)
    assert read_chrome(packed(ROWS), keep=lambda _, _plane, _stats: False).is_cut is cut


def test_profilers_write_a_million_events() -> None:
    assert MOST_EVENTS == 1_000_000


def _document(rows: Any) -> bytes:
    return gzip.compress(json.dumps({"traceEvents": rows}).encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "empty"),
        (packed(ROWS)[:-20], "cut"),
        (b"random bytes", "not a gzip file"),
        (packed(ROWS)[:30] + b"\xff\xff\xff" + packed(ROWS)[33:], "gzip|JSON"),
        (gzip.compress(b'{"traceEvents": [{"ph": "X"', mtime=0), "no whole JSON"),
        (gzip.compress(b"\xff\xfe", mtime=0), "no whole JSON"),
        (gzip.compress(b"[" * 100_000, mtime=0), "no whole JSON"),
        (gzip.compress(b"{}", mtime=0), "no traceEvents"),
        (gzip.compress(b"5", mtime=0), "no traceEvents"),
        (_document([{}, 5]), r"traceEvents\[1\]: expected an object"),
        (
            _document([{"ph": "X", "dur": 1}]),
            r"traceEvents\[0\]\.ts: expected a number, got 'None'",
        ),
        (_document([{"ph": "X", "ts": 1, "dur": "x"}]), r"traceEvents\[0\]\.dur"),
        (_document([{"ph": "X", "ts": 1e999}]), r"traceEvents\[0\]\.ts: expected a finite number"),
        (
            _document([{"ph": "X", "ts": 1, "args": {"device_duration_ps": "x"}}]),
            r"traceEvents\[0\]\.args\.device_duration_ps",
        ),
    ],
)
def test_what_is_no_whole_recording_is_said_to_be_none(content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_chrome(content)
