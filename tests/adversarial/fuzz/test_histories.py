"""Any history that can be read is drawn, whatever times, gaps, names and outcomes it has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.cli.history import cases_tables
from busbw.extensions.page.charts import Chart
from busbw.extensions.page.history import (
    case_history_chart,
    heat_map,
    measured_cases,
    untimed_or_changed_cases,
)
from busbw.history.files import HistoryLine, parse_line
from busbw.history.levels import MachineHistory, build_machine_history
from busbw.history.texts import history_paragraphs
from busbw.model.words import DeviceClass, FailureKind, Outcome
from tests.helpers import build
from tests.helpers.damage import bounded, fuzzed
from tests.helpers.history_lines import line

altair = pytest.importorskip("altair")

CASES = [
    build.case(**changes)
    for changes in (
        {},
        {"payload_bytes": 1 << 40},
        {"payload_bytes": 1, "framework": "tensorflow", "strategy": "<b>'"},
        {"protocol": "device/chain8"},
    )
]
TIMES = st.lists(st.floats(1e-6, 1e12), max_size=3).map(tuple)
TEXTS = st.dictionaries(st.text(max_size=4), st.text(max_size=9), max_size=2)


@st.composite
def lines(draw: st.DrawFn) -> HistoryLine:
    """Draw a line of one of 13 sessions, in one of three years, with one of four cases."""
    session = draw(st.integers(0, 12))
    stack = draw(st.sampled_from(["", "", "a" * 16]))
    changes: dict[str, Any] = {
        "session": f"{session:016x}",
        "moment": f"{2024 + session % 3}-01-{1 + session:02d}T03:00:00Z",
        "device": draw(st.sampled_from(DeviceClass)),
        "case": draw(st.sampled_from(CASES)),
        "times_us": draw(TIMES),
        "outcome": draw(st.sampled_from(Outcome)),
        "failure": draw(st.none() | st.sampled_from(FailureKind)),
        "injected": draw(st.sampled_from(["", "", "delay:5%"])),
        "paired": bool(stack) or draw(st.booleans()),
        "stack": stack,
        "is_reference": bool(stack) and draw(st.booleans()),
        "versions": draw(TEXTS),
        "host": draw(st.text(max_size=5)),
    }
    return line(**changes)


def _read(lines: list[HistoryLine]) -> MachineHistory:
    """Return the history as it is read from a file: in the order of time."""
    whole = sorted((parse_line(line.text, "line") for line in lines), key=lambda line: line.moment)
    return build_machine_history("tpu/4r", tuple(whole))


def _draw(chart: Chart) -> None:
    assert chart.description
    assert json.dumps([chart.to_altair(altair).to_dict(), chart.rows], allow_nan=False)


# Each example draws up to five charts.
@settings(fuzzed, max_examples=fuzzed.max_examples // 4)
@given(st.lists(lines(), min_size=1, max_size=12))
def test_any_valid_history_is_drawn_as_charts_and_tables(history: list[HistoryLine]) -> None:
    with bounded():
        machine = _read(history)
        _draw(heat_map(machine))
        assert list(history_paragraphs(machine)) and len(untimed_or_changed_cases(machine)) <= len(
            machine.cases
        )
        assert sum(len(table.rows) for table in cases_tables(machine)) == len(machine.cases)
        for case in measured_cases(machine):
            _draw(case_history_chart(machine, case))
