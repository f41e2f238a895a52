"""Up to which device and call a cut file goes, in both formats, wherever it is cut."""

from __future__ import annotations

import gzip
import json

import pytest

from busbw.traces.chrome import read_chrome
from busbw.traces.event import TraceError, reached
from busbw.traces.xplane import read_xplane

from .written import Line, Made, complete, numbered, plane, process, space

US = 10**6


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
