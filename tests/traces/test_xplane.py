"""Xplane files: names, clocks, stats of every kind; and nothing but TraceError for bad bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.traces.event import Event, TraceError
from busbw.traces.xplane import read_xplane

from .written import Line, Made, Reference, numbered, plane, sized, space

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


def test_what_is_not_kept_is_counted() -> None:
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
    ],
)
def test_what_is_no_whole_recording_is_said_to_be_none(content: bytes, sentence: str) -> None:
    with pytest.raises(TraceError, match=sentence):
        read_xplane(content)


@given(st.data())
def test_no_bytes_raise_anything_but_a_trace_error(data: st.DataObject) -> None:
    content = bytearray(SPACE)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    _reads_or_says_why(bytes(content[:end]))


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_a_trace_error(content: bytes) -> None:
    _reads_or_says_why(content)


def _reads_or_says_why(content: bytes) -> None:
    try:
        trace = read_xplane(content)
    except TraceError as error:
        assert str(error)
    else:
        assert all(isinstance(event, Event) for event in trace.events)
