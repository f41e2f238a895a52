"""Published figures as a chart."""

from __future__ import annotations

from busbw.report.charts.bandwidth import PublishedCurve, PublishedPoint, published


def _curve(ranks: int, *points: PublishedPoint) -> PublishedCurve:
    return PublishedCurve(
        slice=f"v2-{ranks}",
        device_kind="TPU v2",
        ranks=ranks,
        collective="all_reduce",
        source="a paper, 2019",
        points=points,
    )


KNOWN = PublishedPoint(payload_bytes=2048, algbw_gb_per_s=10.0)
DOUBTED = PublishedPoint(payload_bytes=1024, algbw_gb_per_s=1.0, doubt="too small")
LACKING = PublishedPoint(payload_bytes=4096, algbw_gb_per_s=None)


def test_each_slice_is_a_curve_of_busbw_by_its_ranks() -> None:
    chart = published([_curve(32, KNOWN), _curve(8, KNOWN, DOUBTED)])
    assert [one.name for one in chart.series] == ["v2-8 (8 ranks)", "v2-32 (32 ranks)"]
    assert chart.series[0].points == ((1024, 1.75), (2048, 17.5))
    assert chart.series[1].points == ((2048, 19.375),)


def test_out_of_memory_and_doubts_are_marked() -> None:
    chart = published([_curve(8, KNOWN, DOUBTED, LACKING)])
    assert [(one.label, one.x, one.y) for one in chart.marks] == [
        ("(?)", 1024, 1.75),
        ("OUT_OF_MEMORY", 4096, None),
    ]
    assert "doubtful" in chart.subtitle
    assert "doubtful" not in published([_curve(8, KNOWN, LACKING)]).subtitle


def test_it_says_whose_figures_they_are() -> None:
    chart = published([_curve(8, KNOWN, LACKING)])
    assert chart.title == "All-reduce on TPU v2: published bandwidth"
    assert chart.subtitle.startswith("a paper, 2019. ")
    assert "v2-8 (8 ranks): 17.5 GB/s at 2K; OUT_OF_MEMORY at 4K." in chart.description
