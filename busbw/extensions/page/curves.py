"""The charts of sessions: bandwidths, ratios, spreads of launches, and published bandwidths."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from busbw import metrics
from busbw.baselines.store import PublishedTable
from busbw.model.verdict import LaunchTimeSummary, Verdict
from busbw.model.words import Outcome, parse_payload, plural
from busbw.report.results import Results, SessionDocument

from .charts import Chart, ChartRow, CurveChart

# A reader cannot follow more than 12 curves in a chart.
MAX_CURVES = 12
# A chart with more than 3 curves shows no baselines, since lines would hide each other.
_MAX_CURVES_WITH_BASELINES = 3
# More than 3 ceilings are not drawn, for the same reason.
_MAX_CEILINGS = 3
_FAILURE_OUTCOMES = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)
_BUSBW_TITLE = "busbw (GB/s)"


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCurve:
    """A curve of a chart: the verdicts of a session on cases that differ only in payload.

    Attributes:
        session: The results of the session.
        verdicts: The verdicts of the curve, the smallest payload first. No `case` is None.

    """

    session: Results
    verdicts: tuple[Verdict, ...]

    @property
    def case(self) -> Any:
        """The case with the smallest payload."""
        return self.verdicts[0].case


def curves_of(session: SessionDocument) -> list[MeasuredCurve]:
    """Return the curves of a session, in the order of its cases.

    The list is empty if the session measured nothing, for example because it only compiled
    programs. A verdict whose `case` is None is left out.
    """
    if not isinstance(session, Results):
        return []
    verdicts_by_curve: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in session.verdicts:
        if (case := verdict.case) is not None:
            layout = (case.ranks, case.mesh, case.placement, case.protocol.clock)
            verdicts_by_curve.setdefault((case.family_name, *layout), []).append(verdict)
    return [
        MeasuredCurve(
            session=session,
            verdicts=tuple(sorted(verdicts, key=lambda verdict: verdict.spec.payload_bytes)),
        )
        for verdicts in verdicts_by_curve.values()
    ]


def _property_texts(curve: MeasuredCurve) -> list[str]:
    """Return the properties of a curve as texts, the most useful property first.

    The first texts are, for example, ``jax psum`` and ``all-reduce``. The lists of all curves have
    the same properties in the same order. The text of a property that a curve lacks is empty.
    """
    case = curve.case
    session = curve.session
    environment = curve.session.environment
    version = environment.versions.get(case.framework, {}).get(case.framework, "")
    return [
        f"{case.framework} {case.strategy}",
        case.collective.replace("_", "-"),
        case.reduce_op.replace("none", ""),
        case.placement.replace("_", " "),
        case.dtype,
        environment.key.device_kind,
        f"{case.group_size} ranks",
        case.mesh,
        case.axes and f"along {case.axes}",
        f"{case.protocol.clock.value} clock",
        plural(environment.key.processes, "process"),
        environment.host and f"on {environment.host}",
        version and f"{case.framework} {version}",
        session.began[: len("2026-01-31")],
        session.began,
        environment.commit[:12],
    ]


def curves_by_name(curves: Sequence[MeasuredCurve]) -> dict[str, MeasuredCurve]:
    """Return the curves by name; the name of each curve is unique.

    A name has the framework and the strategy, such as ``jax psum``. If curves have the same
    framework and strategy, their names also have further properties in which curves differ, such as
    the dtype.
    """
    first, *others = [*zip(*map(_property_texts, curves))] or [()]
    names = list(first)
    for words in others:
        if len(set(words)) > 1 and len(set(names)) < len(names):
            pairs = zip(names, words)
            names = [f"{name}, {word}" if word else name for name, word in pairs]
    unique = [
        f"{name} ({number})" if names.count(name) > 1 else name
        for number, name in enumerate(names, 1)
    ]
    return dict(zip(unique, curves, strict=True))


def shared_properties_text(curves: Sequence[MeasuredCurve]) -> str:
    """Return the properties that all curves have in common as text, such as ``float32 · 4 ranks``.

    The text leaves out the framework with its strategy, the collective, and the date.
    """
    texts = list(map(set, zip(*map(_property_texts, curves))))[2:14]
    return " · ".join(text for same in texts if len(same) == 1 for text in same if text)


def _busbw_gb_per_s(summary: LaunchTimeSummary | None) -> float | None:
    """Return the busbw of a case's launches in GB/s; None if `summary` is None."""
    return None if summary is None else summary.busbw_gb_per_s


def _reference_word(curves: Sequence[MeasuredCurve]) -> str:
    """Return the word for what cases are compared with: ``reference`` or ``baseline``.

    The word is ``reference`` if the session of the first curve has two stacks.
    """
    return "reference" if curves[0].session.references else "baseline"


def _collective_title(names: Iterable[str]) -> str:
    """Return the word for collectives that begins a title, such as ``All-reduce``.

    `names` are the names of collectives, such as ``all_reduce``. The word is ``Collectives`` if
    `names` has different names.
    """
    different = list(dict.fromkeys(names))
    name = different[0] if len(different) == 1 else "collectives"
    return name.replace("_", "-").capitalize()


def bandwidth_chart(curves: Sequence[MeasuredCurve]) -> CurveChart:
    """Return a chart of busbw over payload, with ceilings and published bandwidths.

    If there are at most three curves, and all are of the same session, the chart also shows their
    baselines, and a band for the losses that are within the limit. Raises ValueError for more than
    12 curves, or if no case has a busbw.
    """
    if not any(_busbw_gb_per_s(verdict.now) for curve in curves for verdict in curve.verdicts):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > MAX_CURVES:
        raise ValueError(f"{len(curves)} curves, expected at most {MAX_CURVES} in one figure")
    is_one_session = len({id(curve.session) for curve in curves}) == 1
    has_baselines = is_one_session and len(curves) <= _MAX_CURVES_WITH_BASELINES
    reference = _reference_word(curves)
    ceilings = {
        f"ceiling {rate:.4g} GB/s: {verdict.ceiling.text}": rate
        for curve in curves
        for verdict in curve.verdicts
        if verdict.ceiling and (rate := verdict.ceiling.bytes_per_s / 1e9)
    }
    rows = [
        row
        for name, curve in curves_by_name(curves).items()
        for row in _bandwidth_rows(name, curve, has_baselines=has_baselines)
    ]
    dashed = f" Dashed: the {reference}; band: a loss within the limit." if has_baselines else ""
    return CurveChart(
        title=f"{_collective_title(curve.case.collective for curve in curves)}: bus bandwidth",
        subtitle=f"{shared_properties_text(curves)}.{dashed}",
        y_title=_BUSBW_TITLE,
        rows=[*rows, *_published_rows(curves)],
        horizontal_lines=ceilings if len(ceilings) <= _MAX_CEILINGS else {},
        has_log_scale=True,
    )


def _bandwidth_rows(name: str, curve: MeasuredCurve, *, has_baselines: bool) -> Iterator[ChartRow]:
    """Yield a row of a chart for each payload of a curve: busbw, baseline, limit and failure.

    `name` is the name of the curve. Without `has_baselines` the baseline and the limit are None.
    """
    for verdict in curve.verdicts:
        baseline = _busbw_gb_per_s(verdict.baseline) if has_baselines else None
        has_limit = baseline is not None and verdict.limit is not None and verdict.limit > 1
        yield {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": _busbw_gb_per_s(verdict.now),
            "reference": baseline,
            "low": baseline / verdict.limit if has_limit and baseline and verdict.limit else None,
            "high": baseline if has_limit else None,
            "remark": verdict.outcome.value if verdict.outcome in _FAILURE_OUTCOMES else None,
        }


def _published_rows(curves: Sequence[MeasuredCurve]) -> Iterable[ChartRow]:
    """Return a row of a chart for each bandwidth that is published for a case of the curves.

    Each row has the busbw in GB/s, computed from the published algbw.
    """
    rows = {
        (publication.source, verdict.spec.payload_bytes): {
            "series": f"published: {publication.source[:60]}",
            "x": verdict.spec.payload_bytes,
            "y": publication.algbw_gb_per_s
            * metrics.bus_factor_of(curve.case.collective, curve.case.group_size),
        }
        for curve in curves
        for verdict in curve.verdicts
        if (publication := verdict.published) and publication.algbw_gb_per_s
    }
    return rows.values()


def ratio_charts(curves: Sequence[MeasuredCurve]) -> Iterator[CurveChart]:
    """Yield a single chart of ratios over payload; yield nothing if no case has a ratio."""
    reference = _reference_word(curves)
    rows: list[ChartRow] = [
        {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": verdict.ratio,
            "reference": verdict.limit,
            "low": verdict.ratio_interval and verdict.ratio_interval[0],
            "high": verdict.ratio_interval and verdict.ratio_interval[1],
            "remark": verdict.outcome.value if verdict.outcome is not Outcome.PASS else None,
        }
        for name, curve in curves_by_name(curves).items()
        for verdict in curve.verdicts
        if verdict.ratio is not None
    ]
    if rows:
        yield CurveChart(
            title=f"Time over that of the {reference}",
            subtitle=f"{shared_properties_text(curves)}. Above 1 is slower. Dashed: the limit; "
            "band: the interval of the ratio.",
            y_title="ratio",
            rows=rows,
            horizontal_lines={"no change": 1.0},
        )


def launch_deviation_charts(curves: Sequence[MeasuredCurve]) -> Iterator[CurveChart]:
    """Yield a single chart of launches, or nothing if each case has a single launch.

    For each launch the chart has the difference between the time of the launch and the median time
    of the launches of the same case, in per cent.
    """
    rows = [
        {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": round(100 * (time_s / statistics.median(verdict.now.times_s) - 1), 6),
        }
        for name, curve in curves_by_name(curves).items()
        for verdict in curve.verdicts
        if verdict.now is not None and len(verdict.now.times_s) > 1
        for time_s in verdict.now.times_s
    ]
    if rows:
        yield CurveChart(
            title="Launches",
            subtitle=f"{shared_properties_text(curves)}. "
            "Each launch is a worker process of its own.",
            y_title="difference from the median (%)",
            rows=rows,
            horizontal_lines={"median": 0.0},
            has_lines=False,
        )


def session_charts(session: SessionDocument) -> dict[str, list[Chart]]:
    """Return the charts of a session for a page: the heading of each section, and its charts.

    A chart has at most three curves. If the session has more than 36 curves, only 36 are shown, and
    curves with a failed case are chosen first.
    """
    measured = [
        curve
        for curve in curves_of(session)
        if any(_busbw_gb_per_s(verdict.now) for verdict in curve.verdicts)
    ]
    measured.sort(key=lambda curve: not any(verdict.failed for verdict in curve.verdicts))
    curves = measured[: _MAX_CURVES_WITH_BASELINES * MAX_CURVES]
    groups = [
        curves[first : first + _MAX_CURVES_WITH_BASELINES]
        for first in range(0, len(curves), _MAX_CURVES_WITH_BASELINES)
    ]
    return {
        "Bandwidth and ratios": [
            chart for group in groups for chart in (bandwidth_chart(group), *ratio_charts(group))
        ],
        "Spread": [chart for group in groups for chart in launch_deviation_charts(group)],
    }


def published_chart(tables: Sequence[PublishedTable]) -> CurveChart:
    """Return a chart of published bandwidths as busbw over payload, with a curve for each table."""
    ordered = sorted(tables, key=lambda table: (table.ranks, table.slice))
    kinds = " and ".join(dict.fromkeys(table.device_kind for table in ordered))
    sources = "; ".join(dict.fromkeys(table.source for table in ordered))
    return CurveChart(
        title=f"{_collective_title(table.collective for table in ordered)} on {kinds}: "
        "published bandwidth",
        subtitle=f"{sources}. Shown as busbw, computed from the published algbw.",
        y_title=_BUSBW_TITLE,
        rows=[
            {
                "series": f"{table.slice} ({table.ranks} ranks)",
                "x": parse_payload(payload),
                "y": algbw and algbw * metrics.bus_factor_of(table.collective, table.ranks),
                "remark": "OUT_OF_MEMORY"
                if algbw is None
                else "doubtful"
                if payload in table.doubts
                else None,
            }
            for table in ordered
            for payload, algbw in table.algbw_gb_per_s.items()
        ],
        has_log_scale=True,
    )
