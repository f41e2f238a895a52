"""The figures of sessions: bandwidths, ratios, spread, memory of programs, published figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from busbw import metrics
from busbw.baselines.store import PublishedTable
from busbw.model.field_types import moment_text
from busbw.model.verdict import Summary, Verdict
from busbw.model.words import Outcome, plural
from busbw.report.reading import Session

from .figures import Curves, Figure, Row

# With more a reader cannot follow them, and with more than the second number no baseline.
MOST_CURVES = 12
_MOST_WITH_BASELINES = 3
_MOST_RULES = 3
_FAILURES = (Outcome.REGRESSED, Outcome.FAILED, Outcome.OUT_OF_MEMORY)
_PAYLOAD = {"series": "curve", "x": "payload"}
_BUSBW = "busbw (GB/s)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The verdicts of one kind of case in one session, by payload."""

    session: Session
    verdicts: tuple[Verdict, ...]

    @property
    def case(self) -> Any:
        """The case with the smallest payload."""
        return self.verdicts[0].case


def curves_of(session: Session) -> list[Curve]:
    """Return the curves of a session, those with failed cases first."""
    kinds: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in session.verdicts:
        if (case := verdict.case) is not None:
            shape = (case.ranks, case.mesh, case.placement, case.protocol.clock)
            kinds.setdefault((case.family_name, *shape), []).append(verdict)
    curves = [
        Curve(
            session=session,
            verdicts=tuple(sorted(verdicts, key=lambda verdict: verdict.spec.payload_bytes)),
        )
        for verdicts in kinds.values()
    ]
    return sorted(curves, key=lambda curve: not any(v.failed for v in curve.verdicts))


def _properties(curve: Curve) -> list[str]:
    """Return what may tell a curve from others, the most telling first."""
    case, session, environment = curve.case, curve.session, curve.session.environment
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
        session.version(case.framework),
        f"{session.began:%Y-%m-%d}",
        moment_text(session.began),
        environment.commit[:12],
        PurePath(session.name).name,
        session.name,
    ]


def named(curves: Sequence[Curve]) -> dict[str, Curve]:
    """Return each curve by framework, strategy, and words that tell it from the others."""
    first, *others = [*zip(*map(_properties, curves))] or [()]
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


def shared_text(curves: Sequence[Curve]) -> str:
    """Return what is the same for all curves."""
    texts = list(map(set, zip(*map(_properties, curves))))[2:14]
    return " · ".join(text for same in texts if len(same) == 1 for text in same if text)


def _busbw(summary: Summary | None) -> float | None:
    return None if summary is None else summary.busbw_gb_per_s


def _reference_name(curves: Sequence[Curve]) -> str:
    return "reference" if curves[0].session.references else "baseline"


def _collectives(names: Iterable[str]) -> str:
    different = list(dict.fromkeys(names))
    name = different[0] if len(different) == 1 else "collectives"
    return name.replace("_", "-").capitalize()


def bandwidth(curves: Sequence[Curve]) -> Curves:
    """Return the figure of curves; a few of one session have baselines and the limit's band.

    Raises ValueError where there is nothing to draw, or too much.
    """
    if not any(_busbw(verdict.now) for curve in curves for verdict in curve.verdicts):
        raise ValueError("no bandwidth of a collective by itself")
    if len(curves) > MOST_CURVES:
        raise ValueError(f"{len(curves)} curves, expected at most {MOST_CURVES} in one figure")
    sessions = {id(curve.session) for curve in curves}
    has_baselines = len(sessions) == 1 and len(curves) <= _MOST_WITH_BASELINES
    reference, rules = _reference_name(curves), _ceilings(curves)
    rows = [
        row
        for name, curve in named(curves).items()
        for row in _bandwidth_rows(name, curve, has_baselines=has_baselines)
    ]
    dashed = f" Dashed: the {reference}; band: a loss within the limit." if has_baselines else ""
    return Curves(
        title=f"{_collectives(curve.case.collective for curve in curves)}: bus bandwidth",
        subtitle=f"{shared_text(curves)}.{dashed}",
        rows=[*rows, *_published_beside(curves)],
        headings={
            **_PAYLOAD,
            "y": _BUSBW,
            "reference": reference,
            "low": "least within the limit",
            "word": "outcome",
        },
        rules=rules if len(rules) <= _MOST_RULES else {},
        is_log=True,
    )


def _bandwidth_rows(name: str, curve: Curve, *, has_baselines: bool) -> Iterator[Row]:
    for verdict in curve.verdicts:
        baseline = _busbw(verdict.baseline) if has_baselines else None
        has_limit = baseline is not None and verdict.limit is not None and verdict.limit > 1
        yield {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": _busbw(verdict.now),
            "reference": baseline,
            "low": baseline / verdict.limit if has_limit and baseline and verdict.limit else None,
            "high": baseline if has_limit else None,
            "word": verdict.outcome.value if verdict.outcome in _FAILURES else None,
        }


def _ceilings(curves: Sequence[Curve]) -> dict[str, float]:
    return {
        f"ceiling {rate:.4g} GB/s: {verdict.ceiling.text}": rate
        for curve in curves
        for verdict in curve.verdicts
        if verdict.ceiling and (rate := verdict.ceiling.bytes_per_s / 1e9)
    }


def _published_beside(curves: Sequence[Curve]) -> Iterable[Row]:
    """Return the published figures of the curves' cases, as busbw, each once."""
    rows = {
        (figure.source, verdict.spec.payload_bytes): {
            "series": f"published: {figure.source[:60]}",
            "x": verdict.spec.payload_bytes,
            "y": figure.algbw_gb_per_s
            * metrics.bus_factor_of(curve.case.collective, curve.case.group_size),
        }
        for curve in curves
        for verdict in curve.verdicts
        if (figure := verdict.published) and figure.algbw_gb_per_s
    }
    return rows.values()


def comparison(curves: Sequence[Curve]) -> Iterator[Curves]:
    """Yield the figure of ratios, if there are any."""
    reference = _reference_name(curves)
    rows: list[Row] = [
        {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": verdict.ratio,
            "reference": verdict.limit,
            "low": verdict.ratio_interval and verdict.ratio_interval[0],
            "high": verdict.ratio_interval and verdict.ratio_interval[1],
            "word": verdict.outcome.value if verdict.outcome is not Outcome.PASS else None,
        }
        for name, curve in named(curves).items()
        for verdict in curve.verdicts
        if verdict.ratio is not None
    ]
    ratios = [row["y"] for row in rows]
    if rows:
        yield Curves(
            title=f"Time over that of the {reference}",
            subtitle=f"{shared_text(curves)}. Above 1 is slower. Dashed: the limit; "
            "band: the interval of the ratio.",
            rows=rows,
            headings={
                **_PAYLOAD,
                "y": "ratio",
                "reference": "limit",
                "low": "from",
                "high": "to",
                "word": "outcome",
            },
            rules={"no change": 1.0},
            is_log=max(ratios) >= 4 * min(ratios),
        )


def launches(curves: Sequence[Curve]) -> Iterator[Curves]:
    """Yield the figure of every launch against its case's median, if a case has several."""
    rows = [
        {
            "series": name,
            "x": verdict.spec.payload_bytes,
            "y": round(100 * (time_s / statistics.median(verdict.now.times_s) - 1), 6),
        }
        for name, curve in named(curves).items()
        for verdict in curve.verdicts
        if verdict.now is not None and len(verdict.now.times_s) > 1
        for time_s in verdict.now.times_s
    ]
    if rows:
        yield Curves(
            title="Launches",
            subtitle=f"{shared_text(curves)}. Each launch is a worker process of its own.",
            rows=rows,
            headings={**_PAYLOAD, "y": "difference from the median (%)"},
            rules={"median": 0.0},
            has_lines=False,
        )


def session_figures(session: Session) -> dict[str, list[Figure]]:
    """Return the figures of a session by their headings, with a few curves in each figure."""
    curves = [
        curve
        for curve in curves_of(session)
        if any(_busbw(verdict.now) for verdict in curve.verdicts)
    ][: _MOST_WITH_BASELINES * MOST_CURVES]
    groups = [
        curves[first : first + _MOST_WITH_BASELINES]
        for first in range(0, len(curves), _MOST_WITH_BASELINES)
    ]
    return {
        "Bandwidth and ratios": [
            figure for group in groups for figure in (bandwidth(group), *comparison(group))
        ],
        "Spread": [figure for group in groups for figure in launches(group)],
    }


def published(tables: Sequence[PublishedTable]) -> Curves:
    """Return the figure of published tables."""
    ordered = sorted(tables, key=lambda table: (table.ranks, table.slice))
    kinds = " and ".join(dict.fromkeys(table.device_kind for table in ordered))
    sources = "; ".join(dict.fromkeys(table.source for table in ordered))
    return Curves(
        title=f"{_collectives(table.collective for table in ordered)} on {kinds}: "
        "published bandwidth",
        subtitle=f"{sources}. Shown as busbw, computed from the published algbw.",
        rows=[
            {
                "series": f"{table.slice} ({table.ranks} ranks)",
                "x": figure.payload_bytes,
                "y": figure.algbw_gb_per_s
                and figure.algbw_gb_per_s * metrics.bus_factor_of(table.collective, table.ranks),
                "word": "OUT_OF_MEMORY"
                if figure.algbw_gb_per_s is None
                else "doubtful"
                if figure.doubt
                else None,
            }
            for table in ordered
            for figure in sorted(table.entries, key=lambda figure: figure.payload_bytes)
        ],
        headings={**_PAYLOAD, "y": _BUSBW, "word": "remark"},
        is_log=True,
    )
