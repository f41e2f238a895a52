"""Both formats of recordings: names, clocks and stats; what is cut or damaged is a TraceError."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from busbw.traces.chrome import read_chrome
from busbw.traces.event import MOST_EVENTS, TraceError, reached
from busbw.traces.xplane import read_xplane
from tests.helpers.recordings import (
    Line,
    Made,
    Reference,
    complete,
    numbered,
    packed,
    plane,
    process,
    sized,
    space,
)

US = 1_000_000  # picoseconds
STATS: dict[str, str | int | float | Reference | bytes] = {
    "text": "words",
    "small": -3,
    "large": 2**63 + 5,
    "real": 0.25,
    "named": Reference(text="a name"),
    "raw": b"\x00\x01",
}
OPS = Line(
    name="XLA Ops",
    timestamp_ns=1_795_247_868_912_310_004,
    events=[
        Made(name="all-reduce.1", offset_ps=5 * US, duration_ps=123_456, stats=STATS),
        Made(name="fusion.2", offset_ps=9 * US, duration_ps=US),
        Made(name="all-reduce.1", offset_ps=11 * US, duration_ps=7),
    ],
)
LATER = Line(
    name="other", timestamp_ns=OPS.timestamp_ns + 1000, events=[Made(name="copy.1", duration_ps=3)]
)
SPACE = space(plane("/device:TPU:0", [OPS, LATER]), host="a-host")


def test_an_event_has_its_name_its_place_and_its_duration_to_the_picosecond() -> None:
    first, second, third, other = read_xplane(SPACE).events
    assert (first.name, first.plane, first.line) == ("all-reduce.1", "/device:TPU:0", "XLA Ops")
    assert (second.name, third.name, other.line) == ("fusion.2", "all-reduce.1", "other")
    assert [e.duration_s for e in (first, second, third)] == pytest.approx(
        [123456e-12, 1e-6, 7e-12]
    )


def test_times_count_from_the_first_clock_so_that_no_digit_is_lost() -> None:
    starts = [event.start_s for event in read_xplane(SPACE).events]
    assert starts == pytest.approx([5e-6, 9e-6, 11e-6, 1e-6], rel=1e-9)


@pytest.mark.parametrize(
    "own",
    [
        {"device_offset_ps": 3 * US, "device_duration_ps": -1},
        {"device_offset_ps": 3 * US, "device_duration_ps": "long"},
        {"device_offset_ps": 3 * US},
        {"device_duration_ps": 5},
    ],
)
def test_times_of_the_device_that_are_none_leave_those_of_the_profiler(
    own: dict[str, int | str],
) -> None:
    made = Made(name="all-reduce.1", offset_ps=5 * US, duration_ps=7, stats=own)
    (found,) = read_xplane(
        space(plane("/device:TPU:0", [Line(name="XLA Ops", events=[made])]))
    ).events
    assert (found.start_s, found.duration_s) == pytest.approx((5e-6, 7e-12))


def test_stats_keep_their_type_and_raw_bytes_are_left_out() -> None:
    first, _, third, _ = read_xplane(SPACE).events
    assert third.stats == {}
    assert first.stats == {
        "text": "words",
        "small": -3,
        "large": 2**63 + 5,
        "real": 0.25,
        "named": "a name",
    }


def test_what_all_events_of_a_name_share_is_among_the_stats_of_each_and_can_be_overruled() -> None:
    made = Made(name="a", stats={"x": 1}, common={"x": 0, "hlo_category": "all-reduce"})
    (event,) = read_xplane(space(plane("p", [Line(name="l", events=[made])]))).events
    assert event.stats == {"x": 1, "hlo_category": "all-reduce"}


def test_an_instruction_bears_its_short_name_and_keeps_its_text() -> None:
    text = "%all-reduce.1 = f32[4]{0} all-reduce(f32[4]{0} %x)"
    made = Made(name=text, shown="all-reduce.1")
    (event,) = read_xplane(space(plane("p", [Line(name="l", events=[made])]))).events
    assert (event.name, event.stats) == ("all-reduce.1", {"long_name": text})


def test_the_node_of_tensorflow_keeps_its_whole_name() -> None:
    made = Made(name="x_2:CollectiveReduceV2", shown="CollectiveReduceV2")
    (event,) = read_xplane(space(plane("p", [Line(name="l", events=[made])]))).events
    assert event.name == "x_2:CollectiveReduceV2"


def test_a_line_bears_its_name_for_display_if_it_has_one() -> None:
    line = sized(3, sized(2, "1234") + sized(11, "shown") + sized(4, b""))
    (event,) = read_xplane(sized(1, sized(2, "p") + line)).events
    assert (event.plane, event.line, event.name) == ("p", "shown", "")


def test_metadata_after_the_lines_is_found_all_the_same() -> None:
    late = space(plane("/device:TPU:0", [OPS, LATER], metadata_last=True))
    assert read_xplane(late).events == read_xplane(SPACE).events


def test_what_is_not_kept_of_an_xplane_file_is_counted() -> None:
    trace = read_xplane(SPACE, keep=lambda name, _plane, _stats: name == "fusion.2")
    assert [event.name for event in trace.events] == ["fusion.2"]
    assert (trace.recorded, trace.is_cut) == (4, False)


def test_the_host_is_the_one_given_or_else_the_one_recorded() -> None:
    assert read_xplane(SPACE).host == "a-host"
    assert read_xplane(SPACE, host="b").host == "b"


def test_an_unknown_field_is_skipped() -> None:
    unknown = sized(99, b"new") + numbered(98, 5)
    assert read_xplane(unknown + SPACE + unknown).events == read_xplane(SPACE).events


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "empty"),
        (numbered(99, 1), "no plane"),
        (SPACE[:-30], r"byte 0: a field goes on to byte \d+"),
        (b"\x0a", "ends within a number"),
        (b"\xff" * 30, "more than 64 bits"),
        (b"\x0b\x00", "byte 0: not a protobuf field"),
        (b"\0" * 8, "byte 0: not a protobuf field"),
        (SPACE + b"\0" * 8, f"byte {len(SPACE)}: not a protobuf field"),
        (numbered(15, 0) * 65_537 + SPACE, "byte 131072: more than 65536 unknown fields"),
        (sized(1, numbered(15, 0) * 65_537) + SPACE, "more than 65536 unknown fields"),
    ],
)
def test_what_is_no_whole_xplane_file_is_said_to_be_none(content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_xplane(content)


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
    late = complete(
        "b", pid=1, tid=1, ts=9, dur=5.0, device_duration_ps="2", device_offset_ps="7495455062500"
    )
    event, other = read_chrome(packed([row, late])).events
    assert event.duration_s == pytest.approx(1.234567e-6)
    assert other.start_s == pytest.approx(7.4954550625)


def test_names_that_come_after_the_events_hold_for_them_too() -> None:
    later = [*ROWS[2:], *ROWS[:2]]
    assert read_chrome(packed(later)).events == read_chrome(packed(ROWS)).events


def test_what_is_not_kept_of_a_json_is_counted() -> None:
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
def test_what_is_no_whole_json_is_said_to_be_none(content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_chrome(content)


def _device(number: int, calls: int) -> bytes:
    launches = [
        Made(name="jit_f(9)", offset_ps=call * 100 * US, duration_ps=90 * US)
        for call in range(calls)
    ]
    sums = [
        Made(name="all-reduce.1", offset_ps=(call * 100 + 10) * US, duration_ps=20 * US)
        for call in range(calls)
    ]
    lines = [Line(name="XLA Modules", events=launches), Line(name="XLA Ops", events=sums)]
    return plane(f"/device:TPU:{number}", lines, metadata_last=True)


@pytest.mark.parametrize(
    ("begin", "beyond", "says"),
    [
        (b"/host:CPU", 0, "call 4 of /device:TPU:1"),
        (b"/device:TPU:1", 0, "call 4 of /device:TPU:0"),
        (b"/device:TPU:1", 40, "call 1 of /device:TPU:1"),
    ],
)
def test_a_cut_xplane_file_goes_up_to_a_call_of_a_device(
    begin: bytes, beyond: int, says: str
) -> None:
    whole = space(_device(0, 4), _device(1, 4), plane("/host:CPU", []))
    with pytest.raises(TraceError, match=rf"goes on to byte .*; it goes up to {says}$"):
        read_xplane(whole[: whole.index(begin) + beyond])


@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_plane_that_is_cut_behind_its_launches_names_the_call_of_its_last_event(
    call: int,
) -> None:
    whole = space(_device(0, 4))
    begun = numbered(2, ((call - 1) * 100 + 10) * US)
    with pytest.raises(TraceError, match=rf"call {call} of /device:TPU:0$"):
        read_xplane(whole[: whole.index(begun, whole.index(b"XLA Ops")) + len(begun)])


def _chrome() -> bytes:
    rows = []
    for pid in (3, 4):
        rows += process(pid, f"/device:TPU:{pid - 3}", {2: "XLA Modules", 3: "XLA Ops"})
    for pid in (3, 4):
        for call in range(4):
            rows.append(complete("jit_f(9)", pid=pid, tid=2, ts=100.0 * call, dur=90.0))
            rows.append(complete("psum.1", pid=pid, tid=3, ts=100.0 * call + 5, dur=20.0))
    return json.dumps({"traceEvents": rows}).encode()


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (4, "call 2 of /device:TPU:0"),
        (8, "call 4 of /device:TPU:0"),
        (11, "call 2 of /device:TPU:1"),
    ],
)
def test_a_cut_json_goes_up_to_a_call_of_a_device(events: int, says: str) -> None:
    content = _chrome()
    begun = [at for at in range(len(content)) if content.startswith(b'{"ph": "X"', at)]
    with pytest.raises(TraceError, match=f"it goes up to {says}"):
        read_chrome(gzip.compress(content[: begun[events]]))


def test_a_cut_gzip_stream_is_read_as_far_as_it_goes() -> None:
    packed = gzip.compress(_chrome() + b" " * 2**20, compresslevel=0)
    with pytest.raises(TraceError, match=r"stream is cut.*call 4 of /device:TPU:1"):
        read_chrome(packed[: len(packed) // 2])


def test_a_file_that_is_cut_before_any_device_names_the_plane_that_it_ends_in() -> None:
    whole = space(plane("/host:CPU", [Line(name="main", events=[Made(name="f")])]), _device(0, 1))
    with pytest.raises(TraceError, match=r"; it ends within /host:CPU$"):
        read_xplane(whole[: whole.index(b"main") + 2])


def test_what_holds_no_device_goes_up_to_none() -> None:
    assert reached([("/host:CPU", "main", 1.0)]) == ""
    assert reached([]) == ""
    with pytest.raises(TraceError) as caught:
        read_xplane(b"\x8a\x11 random bytes")
    assert "goes up" not in str(caught.value)
