"""Recordings as a table: rows in the order of size, columns in the order of people."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model.words import MIB
from busbw.report.traces import Times, TraceCell, trace_lines
from busbw.traces.iterations import Iteration


def _cell(payload_bytes: int, name: str, time_s: float = 1e-3, *, counted: int = 1) -> TraceCell:
    times = Times(median_s=time_s, min_s=time_s, p25_s=time_s, p90_s=time_s, mean_s=time_s)
    one = Iteration(call="", index=1, durations_s={"h/0": time_s, "h/1": time_s})
    return TraceCell(
        collective="all_reduce",
        payload_bytes=payload_bytes,
        slice=name,
        ranks=2,
        all_ranks=None,
        recorded={"h/0": (counted + 1, 9 * time_s), "h/1": (counted + 1, 8 * time_s)},
        slowest=times,
        devices={"h/0": times, "h/1": times},
        iterations=[one] * counted,
        folders=["somewhere"],
    )


def _table(cells: Sequence[TraceCell], missing: str = "") -> list[str]:
    lines = trace_lines(cells, rate="algbw", missing=missing)
    return [line for line in lines if line.startswith("|")]


def test_rows_and_columns_are_in_order_and_aligned() -> None:
    cells = [_cell(10 * MIB, "v2-128"), _cell(10 * MIB, "v2-8"), _cell(2 * MIB, "v2-8")]
    assert _table(cells, missing="OOM") == [
        "| payload | v2-8 (GB/s) | v2-128 (GB/s) |",
        "|--------:|------------:|--------------:|",
        "|      2M |       2.097 |           OOM |",
        "|     10M |       10.49 |         10.49 |",
    ]


def test_a_note_says_the_range_of_a_column_and_a_single_thing_in_the_singular() -> None:
    cells = [_cell(MIB, "a", 1e-3), _cell(2 * MIB, "a", 2e-3, counted=4), _cell(MIB, "b")]
    lines = trace_lines(cells, rate="algbw")
    counted = "warm-up left out, on 2 devices (2 ranks)"
    times = "1 ms to 2 ms; 2 to 5 recorded on each, 9 ms to 18 ms in all"
    assert f"a: 1 to 4 iterations, {counted}; {times}" in lines
    assert f"b: 1 iteration, {counted}; 1 ms; 2 recorded on each, 9 ms in all" in lines


def test_nothing_read_is_no_line() -> None:
    assert trace_lines([], rate="algbw") == []
