"""Charts of sessions: bandwidths, ratios, steps, strategies, memory and spread."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from busbw.baselines.store import Published, PublishedEntry, Status
from busbw.model.launch import Measurement
from busbw.model.verdict import Ceiling
from busbw.model.words import Outcome, payload_text
from busbw.page.bandwidth import (
    bandwidth,
    comparison,
    published,
)
from busbw.page.chart import Scale, Series, Style, described, table_of
from busbw.page.curves import collectives_text, memory, steps, strategies
from busbw.page.spread import launches, processes, ranks
from busbw.report.reading import Session
from tests import build
from tests.report.written import SOURCE, compiled_session, program, session, verdict

LATER = build.BEGAN + timedelta(days=1)


def _named(*sessions: Any) -> list[str]:
    found = [one for one in bandwidth(sessions).series if one.style is Style.LINE_AND_DOTS]
    return [one.name for one in found if not one.name.startswith("published: ")]


def test_a_curve_has_the_busbw_of_each_payload_and_its_baseline_the_reference_s() -> None:
    chart = bandwidth([session(verdict(8192, 7.0), verdict(4096, 6.0), verdict(16384, None))])
    measured, baseline, published = chart.series
    assert measured.points == ((4096, 6.0), (8192, 7.0))
    assert (baseline.points, baseline.group) == (((4096, 12.0), (8192, 14.0)), measured.name)
    assert published.name == f"published: {SOURCE}"
    assert published.points == ((4096, 4.5), (8192, 4.5), (16384, 4.5))


def test_the_band_reaches_from_the_baseline_to_the_limit() -> None:
    (band,) = bandwidth([session(verdict(4096, 6.0))]).bands
    assert band.name == "jax psum: loss within the limit"
    assert band.points == ((4096, 12.0 / 1.25, 12.0),)


def test_outcomes_that_need_a_look_are_marked() -> None:
    chart = bandwidth(
        [
            session(
                verdict(4096, 6.0),
                verdict(8192, 3.0, outcome=Outcome.REGRESSED),
                verdict(16384, None),
                verdict(32768, None, outcome=Outcome.FAILED),
                verdict(65536, None, outcome=Outcome.SKIPPED),
            )
        ]
    )
    assert [(one.label, one.x, one.y) for one in chart.marks] == [
        ("REGRESSED", 8192, 3.0),
        ("OUT_OF_MEMORY", 16384, None),
        ("FAILED", 32768, None),
    ]


def test_ceilings_are_rules_while_they_are_few_and_else_lines() -> None:
    few = bandwidth([session(verdict(4096, 6.0), verdict(8192, 6.0))])
    assert [(one.label, one.at) for one in few.rules] == [("ceiling 50 GB/s: links", 50.0)]
    cells = [
        verdict(
            1024 << n,
            6.0,
            ceiling=Ceiling(bytes_per_s=1e9 * (n + 1), most_bytes_per_s=1e12, text="", sure=True),
        )
        for n in range(4)
    ]
    many = bandwidth([session(*cells)])
    (line,) = [one for one in many.series if "ceiling" in one.name]
    assert not many.rules
    assert line.points == tuple((1024 << n, n + 1.0) for n in range(4))


def test_frameworks_and_strategies_are_curves_of_their_own() -> None:
    one = session(
        verdict(4096, 6.0),
        verdict(4096, 5.0, framework="tensorflow", strategy="ring"),
        verdict(4096, 4.0, framework="tensorflow", strategy="hierarchical_copy"),
    )
    assert _named(one) == ["jax psum", "tensorflow ring", "tensorflow hierarchical_copy"]


def test_a_name_says_only_what_differs() -> None:
    both = session(verdict(4096, 6.0), verdict(4096, 6.0, dtype="bfloat16"))
    assert _named(both) == ["jax psum, float32", "jax psum, bfloat16"]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"began": LATER}, ("2026-01-02", "2026-01-03")),
        ({"host": "a"}, {"host": "b"}, ("on a", "on b")),
        (
            {},
            {"versions": {"jax": {"jax": "0.11.0"}}},
            ("jax 0.10.0", "jax 0.11.0"),
        ),
        ({"name": "x/a.json"}, {"name": "x/b.json"}, ("a.json", "b.json")),
        ({"name": "x/a.json"}, {"name": "y/a.json"}, ("x/a.json", "y/a.json")),
        (
            {},
            {"began": build.BEGAN + timedelta(hours=1)},
            ("2026-01-02T03:04:05Z", "2026-01-02T04:04:05Z"),
        ),
    ],
)
def test_sessions_are_named_by_what_differs_between_them(
    first: dict[str, Any], second: dict[str, Any], words: tuple[str, str]
) -> None:
    sessions = [session(verdict(4096, 6.0), **one) for one in (first, second)]
    assert _named(*sessions) == [f"jax psum, {one}" for one in words]


def test_the_same_file_twice_still_has_two_names() -> None:
    one = session(verdict(4096, 6.0))
    assert len(set(_named(one, one))) == 2


def test_versions_of_two_frameworks_are_no_difference_between_sessions() -> None:
    versions = {"jax": {"jax": "0.10.0"}, "tensorflow": {"tensorflow": "2.20.0"}}
    both = session(
        verdict(4096, 6.0), verdict(4096, 5.0, framework="tensorflow"), versions=versions
    )
    assert _named(both) == ["jax psum", "tensorflow psum"]
    assert bandwidth([both]).subtitle.endswith("jax 0.10.0 · tensorflow 2.20.0")


def test_several_sessions_have_no_baselines_to_confuse_them() -> None:
    chart = bandwidth([session(verdict(4096, 6.0), name=name) for name in ("a", "b")])
    assert not chart.bands
    assert not any("baseline" in one.name for one in chart.series)


def test_steps_are_left_out() -> None:
    one = session(verdict(4096, 6.0), verdict(8192, 6.0, step="dense"))
    measured: Series = bandwidth([one]).series[0]
    assert measured.points == ((4096, 6.0),)


def test_the_title_and_the_subtitle_say_what_all_curves_share() -> None:
    chart = bandwidth([session(verdict(4096, 6.0), host="vm")])
    assert chart.title == "All-reduce: bus bandwidth"
    assert chart.subtitle == (
        "AMD EPYC · 4 ranks · float32 · host clock · on vm · 2026-01-02 · jax 0.10.0"
    )
    gathered = session(verdict(4096, 6.0), verdict(4096, 6.0, collective="all_gather"))
    assert bandwidth([gathered]).title == "Collectives: bus bandwidth"


def test_a_collective_that_does_not_reduce_has_no_reduce_op_in_its_name() -> None:
    both = session(
        verdict(4096, 6.0), verdict(4096, 6.0, collective="all_gather", reduce_op="none")
    )
    assert [name.split(", ")[1:] for name in _named(both)] == [
        ["all-reduce", "sum"],
        ["all-gather"],
    ]


def test_the_description_says_the_curve_to_who_does_not_see_it() -> None:
    one = session(verdict(4096, 6.0), verdict(8192, 9.0), verdict(16384, 7.0), verdict(32768, None))
    assert (
        "jax psum: 6 GB/s at 4K to 7 GB/s at 16K, at most 9 GB/s at 8K; OUT_OF_MEMORY at 32K."
        in described(bandwidth([one]))
    )


@pytest.mark.parametrize(
    "verdicts", [(), (verdict(4096, None),), (verdict(4096, 1.0, step="dense"),)]
)
def test_a_chart_without_a_bandwidth_is_refused(verdicts: Any) -> None:
    with pytest.raises(ValueError, match="no bandwidth of a collective by itself"):
        bandwidth([session(*verdicts)])


def test_more_curves_than_a_reader_tells_apart_are_refused() -> None:
    sessions = [session(verdict(4096, 6.0), name=str(n)) for n in range(13)]
    with pytest.raises(ValueError, match="13 curves; accepted are 12"):
        bandwidth(sessions)


def _entry(payload_bytes: int, algbw_gb_per_s: float | None, doubt: str = "") -> PublishedEntry:
    return PublishedEntry(
        payload=payload_text(payload_bytes),
        payload_bytes=payload_bytes,
        status=Status.OOM if algbw_gb_per_s is None else Status.OK,
        algbw_gb_per_s=algbw_gb_per_s,
        doubt=doubt,
    )


def _table(ranks: int, *entries: PublishedEntry) -> Published:
    return Published(
        document="busbw published figures",
        version=1,
        source="a paper, 2019",
        method="by hand",
        slice=f"v2-{ranks}",
        device_kind="TPU v2",
        ranks=ranks,
        collective="all_reduce",
        entries=entries,
    )


KNOWN = _entry(2048, 10.0)
DOUBTED = _entry(1024, 1.0, doubt="too small")
LACKING = _entry(4096, None)


def test_each_slice_is_a_curve_of_busbw_by_its_ranks() -> None:
    chart = published([_table(32, KNOWN), _table(8, KNOWN, DOUBTED)])
    assert [one.name for one in chart.series] == ["v2-8 (8 ranks)", "v2-32 (32 ranks)"]
    assert chart.series[0].points == ((1024, 1.75), (2048, 17.5))
    assert chart.series[1].points == ((2048, 19.375),)


def test_out_of_memory_and_doubts_are_marked() -> None:
    chart = published([_table(8, KNOWN, DOUBTED, LACKING)])
    assert [(one.label, one.x, one.y) for one in chart.marks] == [
        ("(?)", 1024, 1.75),
        ("OUT_OF_MEMORY", 4096, None),
    ]
    assert "doubtful" in chart.subtitle
    assert "doubtful" not in published([_table(8, KNOWN, LACKING)]).subtitle


def test_it_says_whose_figures_they_are() -> None:
    chart = published([_table(8, KNOWN, LACKING)])
    assert chart.title == "All-reduce on TPU v2: published bandwidth"
    assert chart.subtitle.startswith("a paper, 2019. ")
    assert "v2-8 (8 ranks): 17.5 GB/s at 2K; OUT_OF_MEMORY at 4K." in described(chart)


def test_ratios_stand_over_payloads_with_what_they_were_judged_by() -> None:
    chart = comparison(
        session(
            verdict(4096, 6.0, ratio=1.1, ratio_interval=(1.0, 1.2), limit=1.3),
            verdict(8192, 6.0, ratio=0.9, ratio_interval=(0.8, 1.0), limit=1.4),
            verdict(16384, 6.0),
        )
    )
    assert chart is not None
    ratios, limit = chart.series
    assert ratios.points == ((4096, 1.1), (8192, 0.9))
    assert (limit.name, limit.points) == ("jax psum: limit", ((4096, 1.3), (8192, 1.4)))
    assert chart.bands[0].points == ((4096, 1.0, 1.2), (8192, 0.8, 1.0))
    assert "jax psum: 1.1 at 4K to 0.9 at 8K. no change: 1." in described(chart)


def test_what_was_judged_to_have_changed_is_marked() -> None:
    chart = comparison(
        session(
            verdict(4096, 6.0, ratio=1.5, outcome=Outcome.REGRESSED),
            verdict(8192, 6.0, ratio=0.5, outcome=Outcome.IMPROVED),
            verdict(16384, 6.0, ratio=1.0),
        )
    )
    assert chart is not None
    assert [(one.label, one.x) for one in chart.marks] == [("REGRESSED", 4096), ("IMPROVED", 8192)]


def test_far_ratios_have_a_logarithmic_axis_and_near_ones_a_linear_one() -> None:
    near = comparison(session(verdict(4096, 6.0, ratio=1.1)))
    far = comparison(session(verdict(4096, 6.0, ratio=0.1), verdict(8192, 6.0, ratio=9.0)))
    assert near is not None and far is not None
    assert (near.y.scale, far.y.scale) == (Scale.LINEAR, Scale.LOG10)


def test_many_curves_have_neither_intervals_nor_limits_and_too_many_no_chart() -> None:
    dtypes = ("float32", "int32", "float16", "bfloat16")
    four = [verdict(4096, 6.0, ratio=1.1, ratio_interval=(1.0, 1.2), dtype=name) for name in dtypes]
    chart = comparison(session(*four))
    assert chart is not None
    assert len(chart.series) == 4 and not chart.bands
    many = [verdict(4096, 6.0, ratio=1.1, ranks=ranks) for ranks in range(2, 16)]
    assert comparison(session(*many)) is None


def test_without_a_ratio_there_is_no_chart() -> None:
    assert comparison(session(verdict(4096, 6.0))) is None


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["all_reduce", "all_reduce"], "All-reduce"),
        (["all_reduce", "all_gather"], "Collectives"),
    ],
)
def test_a_title_names_one_collective_or_says_that_there_are_several(
    names: list[str], title: str
) -> None:
    assert collectives_text(names) == title


def test_a_step_has_a_curve_over_the_gradient_in_milliseconds() -> None:
    timed = [
        replace(verdict(size, 6.0, step="dense"), now=build.summary(median_s=time_s))
        for size, time_s in ((4096, 1e-3), (8192, 2e-3))
    ]
    chart = steps(session(*timed, verdict(4096, 6.0)))
    assert chart is not None
    (series,) = chart.series
    assert series.points == ((4096, 1.0), (8192, 2.0))
    assert "1 ms at 4K to 2 ms at 8K" in described(chart)


def test_each_launch_of_a_strategy_is_a_dot() -> None:
    timed = [
        replace(
            verdict(143656, 6.0, step="cnn", framework="tensorflow", strategy=name, ranks=ranks),
            now=build.summary(times_s=(1e-3, 3e-3)),
        )
        for name, ranks in (("one_device", 1), ("mirrored", 4))
    ]
    chart = strategies(session(*timed))
    assert chart is not None
    (series,) = chart.series
    assert series.points == (
        ("one_device", 1.0),
        ("one_device", 3.0),
        ("mirrored", 1.0),
        ("mirrored", 3.0),
    )
    assert steps(session(*timed)) is None


def test_a_session_without_training_has_neither() -> None:
    found = session(verdict(4096, 6.0))
    assert steps(found) is None and strategies(found) is None


def test_one_that_gave_no_time_has_no_point() -> None:
    assert steps(session(verdict(4096, None, step="dense"))) is None


def test_a_point_is_the_peak_in_payloads_and_what_does_not_fit_is_marked() -> None:
    chart = memory(
        compiled_session(program(4096, 8192), program(8192, 12288), program(16384, None))
    )
    assert chart is not None
    (series,) = chart.series
    assert (series.name, series.points) == ("v5e:2x4", ((4096, 2.0), (8192, 1.5)))
    (mark,) = chart.marks
    assert (mark.label, mark.x, mark.series) == ("OUT_OF_MEMORY", 16384, "v5e:2x4")
    assert "OUT_OF_MEMORY at 16K" in described(chart)


def test_releases_and_kinds_are_named_where_there_are_several() -> None:
    one = program(4096, 8192)
    other = program(4096, 4096, release="libtpu 0.0.43")
    chart = memory(compiled_session(one, other))
    assert chart is not None
    assert [series.name for series in chart.series] == [
        "v5e:2x4, libtpu 0.0.42",
        "v5e:2x4, libtpu 0.0.43",
    ]


def test_of_more_than_fit_those_that_changed_are_shown() -> None:
    usual = [program(4096, 8192, topology=f"v5e:{n}x4") for n in range(1, 15)]
    changed = program(4096, 8192, topology="v6e:2x4", outcome=Outcome.CHANGED)
    chart = memory(compiled_session(*usual, changed))
    assert chart is not None
    assert len(chart.series) == 12 and chart.series[0].name == "v6e:2x4"
    assert "3 others are in the tables only" in chart.subtitle


@pytest.mark.parametrize("verdicts", [(), (program(4096, None),)])
def test_without_a_program_there_is_no_chart(verdicts: tuple[object, ...]) -> None:
    assert memory(compiled_session(*verdicts)) is None  # type: ignore[arg-type]


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
    assert "-20 % at 4K to 10 % at 4K" in described(chart)


def test_a_single_launch_has_no_spread() -> None:
    assert launches(_timed(1e-3)) is None
    assert launches(session(verdict(4096, None))) is None


def test_the_table_has_every_launch_of_a_case() -> None:
    several = replace(verdict(4096, 6.0), now=build.summary(times_s=(1e-3, 2e-3)))
    single = replace(verdict(8192, 6.0), now=build.summary(times_s=(3e-3,)))
    chart = launches(session(several, single, verdict(16384, None)))
    assert chart is not None
    (row,) = table_of(chart).rows
    assert row.values["jax psum"] == "-33.33, 33.33"


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
    assert "to 3 at 2 (b)." in described(chart)
    rows = table_of(chart).rows
    assert [row.values["process"] for row in rows] == ["0 (a)", "1 (a)", "2 (b)"]


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
