"""How launches, processes and ranks differ, as charts and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.model.launch import Measurement
from busbw.report.charts.spread import launch_table, launches, member_table, processes, ranks
from busbw.report.reading import Session
from tests import build
from tests.report.written import session, verdict


def _timed(*times_s: float, **changes: Any) -> Session:
    now = build.summary(times_s=times_s)
    return session(replace(verdict(4096, 6.0), now=now), **changes)


def _group(*runs: Any, hosts: tuple[str, ...] = ()) -> Session:
    found = session(verdict(4096, 6.0))
    (one,) = found.verdicts
    assert one.case is not None
    measured = {one.spec: Measurement(case=one.case, runs=runs)}
    return replace(found, measurements=measured, process_hosts=hosts)


def test_launches_are_per_cent_off_the_median_of_their_case() -> None:
    chart = launches(_timed(1e-3, 1.1e-3, 0.8e-3))
    assert chart is not None
    (series,) = chart.series
    assert [y for _, y in series.points] == pytest.approx([0, 10, -20])
    assert "from -20 % to 10 %" in chart.description


def test_a_single_launch_has_no_spread() -> None:
    assert launches(_timed(1e-3)) is None
    assert launches(session(verdict(4096, None))) is None


def test_the_table_has_a_column_for_each_launch_and_none_is_missing() -> None:
    several = replace(verdict(4096, 6.0), now=build.summary(times_s=(1e-3, 2e-3)))
    single = replace(verdict(8192, 6.0), now=build.summary(times_s=(3e-3,)))
    table = launch_table(session(several, single, verdict(16384, None)))
    first, second = table.rows
    assert [first.values[f"launch {n}"] for n in (1, 2)] == [1e-3, 2e-3]
    assert [second.values[f"launch {n}"] for n in (1, 2)] == [3e-3, None]


def test_a_process_is_told_by_its_own_time_with_its_host() -> None:
    found = _group(
        build.run(1e-3, process_own_s=(1e-3, 1e-3, 4e-3)),
        build.run(1e-3, process_own_s=(2e-3, 2e-3, 4e-3)),
        hosts=("a", "a", "b"),
    )
    chart = processes(found)
    assert chart is not None
    (series,) = chart.series
    assert series.points == (("0 (a)", 1.0), ("1 (a)", 1.0), ("2 (b)", 3.0))
    assert "at most 3, process 2 (b)" in chart.description
    table = member_table(chart)
    assert [row.values["process"] for row in table.rows] == ["0 (a)", "1 (a)", "2 (b)"]


def test_without_names_of_hosts_processes_have_their_numbers() -> None:
    chart = processes(_group(build.run(1e-3, process_own_s=(1e-3, 1e-3))))
    assert chart is not None
    assert [x for x, _ in chart.series[0].points] == ["0", "1"]


def test_processes_that_take_no_time_of_their_own_have_no_chart() -> None:
    assert processes(_group(build.run(1e-3, process_own_s=(0.0, 0.0)))) is None


def test_a_single_process_has_no_chart_and_no_clock_of_ranks_none_either() -> None:
    alone = _group(build.run(1e-3))
    assert processes(alone) is None and ranks(alone) is None
    assert processes(session(verdict(4096, 6.0))) is None


def test_more_ranks_than_stand_side_by_side_have_no_chart() -> None:
    assert ranks(_group(build.run(1e-3, rank_times_s=(1e-3,) * 64))) is not None
    assert ranks(_group(build.run(1e-3, rank_times_s=(1e-3,) * 65))) is None
