"""Latency and bandwidth as lines: before and now, or only now."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.judge.curve import Curve
from busbw.report.renderers import rendered
from busbw.report.session import CurveGroup, curve_tables

BEFORE = Curve(latency_s=52.06e-6, bandwidth_bytes_per_s=3.412e9, rms_log_error=0.05)
NOW = Curve(latency_s=60.34e-6, bandwidth_bytes_per_s=3.401e9, rms_log_error=0.081)


def curve_lines(groups: Sequence[CurveGroup]) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", *curve_tables(groups))


def test_no_groups_are_no_lines() -> None:
    assert curve_lines([]) == []


def test_a_group_without_a_baseline_has_its_figures_of_now() -> None:
    (line,) = curve_lines([CurveGroup(name="jax all_reduce (psum)", now=NOW)])[2:]
    assert line == (
        "    jax all_reduce (psum)  latency 60.3 us, bandwidth 3.40 GB/s (fit error 8 %)"
    )


def test_a_group_with_a_baseline_has_both_before_and_now() -> None:
    (line,) = curve_lines([CurveGroup(name="jax", now=NOW, before=BEFORE)])[2:]
    assert line == (
        "    jax  latency 52.1 us -> 60.3 us, bandwidth 3.41 GB/s -> 3.40 GB/s (fit error 8 %)"
    )


def test_a_heading_says_what_was_fitted() -> None:
    assert curve_lines([CurveGroup(name="jax", now=NOW)])[:2] == [
        "",
        "latency + payload / bandwidth, fitted to all payloads:",
    ]


def test_the_figures_of_several_groups_stand_below_one_another() -> None:
    groups = [CurveGroup(name=name, now=NOW) for name in ("jax", "tensorflow")]
    first, second = curve_lines(groups)[2:]
    assert first.index("latency") == second.index("latency")


def test_no_latency_and_many_gigabytes_are_written_plainly() -> None:
    fast = Curve(latency_s=0.0, bandwidth_bytes_per_s=1.2341e12, rms_log_error=0.0)
    (line,) = curve_lines([CurveGroup(name="jax", now=fast)])[2:]
    assert "latency too small to see, bandwidth 1234 GB/s (fit error 0 %)" in line


def test_a_latency_just_below_a_millisecond_is_not_written_with_an_exponent() -> None:
    slow = Curve(latency_s=999.6e-6, bandwidth_bytes_per_s=3.4e9, rms_log_error=0.0)
    (line,) = curve_lines([CurveGroup(name="jax", now=slow)])[2:]
    assert "latency 1000 us," in line
