"""Verdicts as tables: a row for each case, in the order of the grid, and below it the reasons.

Takes what the judge decided, decides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from busbw.collectives import COLLECTIVES
from busbw.model import (
    Ceiling,
    Clock,
    Outcome,
    Reference,
    Verdict,
    payload_text,
    rate_text,
    seconds_text,
)

from .table import Column, Row, Table, TextLine, attributes, percent_text

_RATE = "{:.4g}".format
_BOLD = {"bold": True}

MARKUP: Mapping[Outcome, Mapping[str, bool]] = {
    Outcome.REGRESSED: {"red": True, "bold": True},
    Outcome.FAILED: {"red": True, "bold": True},
    Outcome.OUT_OF_MEMORY: {"yellow": True},
    Outcome.IMPROVED: {"cyan": True},
    Outcome.INCOMPARABLE: {"yellow": True},
    Outcome.NO_BASELINE: {},
    Outcome.CHANGED: {"red": True},
    Outcome.COMPILE_ERROR: {"red": True, "bold": True},
}


def verdict_tables(verdicts: Sequence[Verdict]) -> list[Table]:
    """The verdicts by framework, strategy and dtype, a table for each group."""
    return [_table(name, list(alike)) for name, alike in itertools.groupby(verdicts, key=_group)]


def _table(name: str, group: Sequence[Verdict]) -> Table:
    bounded = any(verdict.ceiling is not None for verdict in group)
    of_strategies = bool(group[0].spec.workload.own_strategies)
    return Table(
        title=TextLine(name, _BOLD),
        columns=_columns(of_strategies=of_strategies, bounded=bounded),
        rows=tuple(map(_row, group)),
        notes=(*_ceiling_notes(group), *_source_notes(group)),
    )


def _columns(*, of_strategies: bool, bounded: bool) -> tuple[Column, ...]:
    """Only groups that have a ceiling show the share of it."""
    label = Column("payload_bytes", "payload", text=payload_text, width=8, fits=True)
    if of_strategies:
        label = Column("strategy", "strategy", width=8, fits=True)
    share = Column("ceiling_share", "of ceiling", unit="%", text=_share_text, width=10)
    return (
        label,
        Column("best_s", "best", text=seconds_text, width=10),
        Column("median_s", "median", text=seconds_text, width=10),
        Column("algbw_gb_per_s", "algbw", unit="GB/s", text=_RATE, width=9),
        Column("busbw_gb_per_s", "busbw", unit="GB/s", text=_RATE, width=9),
        *([share] if bounded else []),
        Column("spread", "spread", unit="%", text=percent_text, width=7),
        Column("dispatch_s", "per call", text=seconds_text, width=10),
        Column("baseline_s", "baseline", text=seconds_text, width=10),
        Column("ratio", "ratio", text="{:.2f}".format, width=6),
        Column("outcome", "outcome", left=True, gap=2),
    )


def _row(verdict: Verdict) -> Row:
    markup = MARKUP.get(verdict.outcome, {})
    if verdict.failed:
        markup = {"red": True, "bold": True}
    notes = [TextLine(note, {"yellow": True}) for note in verdict.notes]
    if verdict.outcome not in (Outcome.PASS, Outcome.NO_BASELINE):
        notes.insert(0, TextLine(verdict.text, markup))
    if verdict.reference is not None:
        notes.append(TextLine(_reference_text(verdict.reference)))
    return Row(_values(verdict), markup=markup, notes=tuple(notes))


def _values(verdict: Verdict) -> dict[str, object]:
    """Times; rates only of what is a collective and nothing else."""
    spec = verdict.spec
    rated = verdict.now if spec.workload.is_bare else None
    return {
        **attributes(spec, "strategy", "payload_bytes"),
        **attributes(verdict.now, "best_s", "median_s", "spread", "dispatch_s"),
        **attributes(rated, "algbw_gb_per_s", "busbw_gb_per_s"),
        **attributes(verdict, "ceiling_share", "ratio"),
        "baseline_s": verdict.baseline.median_s if verdict.baseline else None,
        "outcome": _outcome(verdict),
    }


def _ceiling_notes(group: Sequence[Verdict]) -> list[str]:
    """What the ceiling of a group is, and for which payloads where they have several."""
    found = [v for v in group if v.ceiling is not None]
    several = len({v.ceiling for v in found}) > 1
    notes = []
    for ceiling, alike in itertools.groupby(found, key=lambda verdict: verdict.ceiling):
        if ceiling is not None:
            sizes = f" for {_span(list(alike))}" if several else ""
            notes.append(_ceiling_text(ceiling, sizes))
    return notes


def _span(verdicts: Sequence[Verdict]) -> str:
    sizes = [payload_text(verdict.spec.payload_bytes) for verdict in verdicts]
    return sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _ceiling_text(ceiling: Ceiling, sizes: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{sizes}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _source_notes(group: Sequence[Verdict]) -> list[str]:
    """Where the published figures of a group come from, once."""
    sources = {verdict.reference.source for verdict in group if verdict.reference}
    return [f"published figures, by another method: {one}" for one in sorted(sources)]


def _group(verdict: Verdict) -> str:
    case = verdict.case
    if verdict.spec.workload.own_strategies:
        gradient = f"{verdict.spec.payload_bytes} bytes of gradient in {verdict.spec.dtype}"
        return f"{verdict.spec.framework} training under strategies, {gradient}, a step is timed"
    if case is None:
        return f"{verdict.spec.framework} {verdict.spec.collective} {verdict.spec.dtype}"
    parts = [f"{case.framework} {case.collective} ({case.strategy})", f"{case.ranks} ranks"]
    if case.axes:
        parts[-1] += f", {len(case.groups)} groups of {case.group_size} along {case.axes}"
    parts.append(case.dtype if case.reduce_op == "none" else f"{case.reduce_op} of {case.dtype}")
    unusual = case.placement != COLLECTIVES[case.collective].placements[0]
    parts += [case.placement.replace("_", " ")] if unusual else []
    parts += [f"{case.clock.value} clock"] if case.clock is not Clock.HOST else []
    if not case.workload.is_bare:
        parts.append(f"in a {case.workload.kind} step, which is what is timed")
    return ", ".join(parts)


def _share_text(share: float) -> str:
    """Per cent of the ceiling, two significant digits below ten."""
    return percent_text(share) if share >= 0.1 else f"{100 * share:.2g}"


def _outcome(verdict: Verdict) -> str:
    word = verdict.outcome.value
    if verdict.provisional:
        word += " (provisional)"
    if verdict.expected:
        word += " (expected)"
    return word


def _reference_text(reference: Reference) -> str:
    figure = "out of memory" if reference.oom else f"algbw {reference.algbw_gb_per_s:.4g} GB/s"
    doubt = f" ({reference.doubt})" if reference.doubt else ""
    return f"published: {figure}{doubt}"
