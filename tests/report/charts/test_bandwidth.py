"""Bandwidth over payload: curves, their names, baselines, bands, ceilings and marks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from busbw.model.verdict import Ceiling
from busbw.model.words import Outcome
from busbw.report.chart import Series, Style
from busbw.report.charts.bandwidth import bandwidth
from tests import build

from ..written import SOURCE, session, verdict

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
        in bandwidth([one]).description
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
