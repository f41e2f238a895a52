"""What commands share that draw published figures: their files, and the chart of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from busbw import baselines, report

from .command import usage_error


def published_files(folder: Path, device: str | None = None) -> list[Path]:
    every = sorted(folder.glob("*/*/published.*.json"))
    return [path for path in every if device in (None, path.parent.parent.name)]


def published_chart(paths: Sequence[Path]) -> report.Chart:
    """The chart of at least one published table. Raises UsageError for one that is damaged."""
    return report.published([_curve(path) for path in paths])


def _curve(path: Path) -> report.PublishedCurve:
    with usage_error(baselines.BaselineError):
        table = baselines.read_published(path)
    points = tuple(
        report.PublishedPoint(
            payload_bytes=one.payload_bytes,
            algbw_gb_per_s=one.algbw_gb_per_s,
            doubt=one.doubt,
        )
        for one in table.entries
    )
    return report.PublishedCurve(
        slice=table.slice,
        device_kind=table.device_kind,
        ranks=table.ranks,
        collective=table.collective,
        source=table.source,
        points=points,
    )
