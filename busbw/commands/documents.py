"""Results, histories and published figures as commands read them; errors name file or folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from busbw import files, nights
from busbw.baselines.document import BaselineError
from busbw.baselines.store import read_published
from busbw.history.files import HistoryError, folders
from busbw.report.chart import Chart
from busbw.report.charts.bandwidth import PublishedCurve, PublishedPoint, published
from busbw.report.nights import MachineNights
from busbw.report.reading import CompiledSession, DocumentError, Session, read_results

from .command import UsageError, usage_error


def session_in(path: Path) -> Session | CompiledSession:
    """The session in a file of `--results`. Raises UsageError."""
    with usage_error(files.InputError, where=f"{path}: "):
        content = files.content(path)
    with usage_error(DocumentError):
        return read_results(content, str(path))


def machines_in(
    root: Path, baselines: Path, *, named: str | None, others: Collection[str] = ()
) -> Sequence[MachineNights]:
    """The machine that is `named`, or those of the `others` that the history has, or all of it.

    `baselines` says which changes are accepted. Raises UsageError where there is none.
    """
    wanted = {named} if named is not None else set(others)
    with usage_error(HistoryError, where="--history: "):
        found = nights.machines(root, baselines, wanted or None)
        if not found:
            known = ", ".join(folders(root)) or "nothing"
            option = "--history" if named is None else "--machine"
            names = ", ".join(sorted(wanted)) or "sessions"
            raise UsageError(f"{option}: {root} has no {names}; it has {known}")
    return found


def published_files(folder: Path, device: str | None = None) -> list[Path]:
    every = sorted(folder.glob("*/*/published.*.json"))
    return [path for path in every if device in (None, path.parent.parent.name)]


def published_chart(paths: Sequence[Path]) -> Chart:
    """The chart of at least one published table. Raises UsageError for one that is damaged."""
    return published([_curve(path) for path in paths])


def _curve(path: Path) -> PublishedCurve:
    with usage_error(BaselineError):
        table = read_published(path)
    points = tuple(
        PublishedPoint(
            payload_bytes=one.payload_bytes,
            algbw_gb_per_s=one.algbw_gb_per_s,
            doubt=one.doubt,
        )
        for one in table.entries
    )
    return PublishedCurve(
        slice=table.slice,
        device_kind=table.device_kind,
        ranks=table.ranks,
        collective=table.collective,
        source=table.source,
        points=points,
    )
