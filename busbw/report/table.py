"""One line per case, in the order of the grid; baselines before and after."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw import metrics
from busbw.collectives import COLLECTIVES
from busbw.model import (
    Baseline,
    Case,
    Ceiling,
    Clock,
    Outcome,
    Reference,
    Summary,
    Verdict,
    payload_text,
    rate_text,
    seconds_text,
)

_WIDTHS = (8, 10, 10, 9, 9, 7, 10, 10, 6)
_HEAD = (
    "payload",
    "best",
    "median",
    "algbw",
    "busbw",
    "spread",
    "per call",
    "baseline",
    "ratio",
    "outcome",
)
_UNITS = ("", "", "", "GB/s", "GB/s", "%", "", "", "", "")

# The share of the ceiling stands after busbw, in groups that have one.
_SHARE_PLACE, _SHARE_WIDTH = 5, 10

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of text and how a terminal should mark it."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


def table(verdicts: Sequence[Verdict]) -> list[Line]:
    """The verdicts by framework, strategy and dtype, each group under a heading of its own."""
    lines: list[Line] = []
    for name, alike in itertools.groupby(verdicts, key=_group):
        group = list(alike)
        bounded = any(verdict.ceiling is not None for verdict in group)
        lines += [Line(text=""), Line(text=name, markup={"bold": True})]
        width = max(_WIDTHS[0], *(len(_label(verdict)) for verdict in group))
        head = ("strategy", *_HEAD[1:]) if group[0].spec.workload.own_strategies else _HEAD
        lines.append(Line(text=_row(head, "of ceiling" if bounded else None, width)))
        lines.append(Line(text=_row(_UNITS, "%" if bounded else None, width)))
        for verdict in group:
            lines += _case_lines(verdict, width, bounded=bounded)
        lines += _ceiling_lines(group) + _source_lines(group)
    return lines


def _row(cells: Sequence[str], share: str | None, first_width: int) -> str:
    """The cells below their heads; `share` None: the group has no ceiling."""
    widths = (first_width, *_WIDTHS[1:])
    aligned = [f"{cell:>{width}}" for cell, width in zip(cells, widths)]
    if share is not None:
        aligned.insert(_SHARE_PLACE, f"{share:>{_SHARE_WIDTH}}")
    return f"{' '.join(aligned)}  {cells[-1]}".rstrip()


def _ceiling_lines(group: Sequence[Verdict]) -> list[Line]:
    """What the ceiling of a group is, and for which payloads where they have several."""
    found = [v for v in group if v.ceiling is not None]
    several = len({v.ceiling for v in found}) > 1
    lines = []
    for ceiling, alike in itertools.groupby(found, key=lambda verdict: verdict.ceiling):
        if ceiling is not None:
            sizes = f" for {_span(list(alike))}" if several else ""
            lines.append(Line(text=_ceiling_text(ceiling, sizes)))
    return lines


def _span(verdicts: Sequence[Verdict]) -> str:
    sizes = [payload_text(verdict.spec.payload_bytes) for verdict in verdicts]
    return sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _ceiling_text(ceiling: Ceiling, sizes: str) -> str:
    text = f"ceiling {rate_text(ceiling.bytes_per_s)}{sizes}: {ceiling.text}"
    if ceiling.in_switch:
        text += f"; adding up in the switch up to {rate_text(ceiling.most_bytes_per_s)}"
    return text if ceiling.sure else f"{text}; the chip's figures are not sure"


def _source_lines(group: Sequence[Verdict]) -> list[Line]:
    """Where the published figures of a group come from, once."""
    sources = {verdict.reference.source for verdict in group if verdict.reference}
    return [Line(text=f"published figures, by another method: {one}") for one in sorted(sources)]


def _label(verdict: Verdict) -> str:
    """What tells a case from the others of its group."""
    spec = verdict.spec
    return spec.strategy if spec.workload.own_strategies else payload_text(spec.payload_bytes)


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


def _case_lines(verdict: Verdict, width: int, *, bounded: bool) -> list[Line]:
    markup = dict(MARKUP.get(verdict.outcome, {}))
    if verdict.failed:
        markup = {"red": True, "bold": True}
    share = _share(verdict) if bounded else None
    lines = [Line(text=_row(_cells(verdict), share, width), markup=markup)]
    if verdict.outcome not in (Outcome.PASS, Outcome.NO_BASELINE):
        lines.append(Line(text=f"{'':<10}{verdict.text}", markup=markup))
    lines += [Line(text=f"{'':<10}{note}", markup={"yellow": True}) for note in verdict.notes]
    if verdict.reference is not None:
        lines.append(Line(text=f"{'':<10}{_reference_text(verdict.reference)}"))
    return lines


def _cells(verdict: Verdict) -> tuple[str, ...]:
    before = verdict.baseline
    return (
        _label(verdict),
        *(_numbers(verdict.now, rates=verdict.spec.workload.is_bare) if verdict.now else ("",) * 6),
        seconds_text(before.median_s) if before else "",
        f"{verdict.ratio:.2f}" if verdict.ratio is not None else "",
        _outcome(verdict),
    )


def _share(verdict: Verdict) -> str:
    """Per cent of the ceiling, two significant digits below ten."""
    share = verdict.ceiling_share
    if share is None:
        return ""
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"


def _numbers(now: Summary, *, rates: bool) -> tuple[str, ...]:
    """Times; `rates` only of what is a collective and nothing else."""
    return (
        seconds_text(now.best_s),
        seconds_text(now.median_s),
        f"{now.algbw_gb_per_s:.4g}" if rates else "",
        f"{now.busbw_gb_per_s:.4g}" if rates else "",
        f"{100 * now.spread:.0f}",
        seconds_text(now.dispatch_s) if now.dispatch_s is not None else "",
    )


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


def measured_lines(found: Sequence[tuple[Case, Summary]], launches: int) -> list[str]:
    """What an interrupted session had measured by then; nothing of it is judged."""
    lines = []
    for case, now in found:
        done = f"{len(now.times_s)} of {launches} launches"
        rates = f"algbw {now.algbw_gb_per_s:.4g} GB/s, busbw {now.busbw_gb_per_s:.4g} GB/s"
        lines.append(f"{case.name:<48} {seconds_text(now.median_s):>10}  {rates}  ({done})")
    return lines or ["nothing was measured before the interrupt"]


def change_lines(
    changes: Sequence[tuple[str, Case, Baseline | None, Baseline | None]],
) -> list[str]:
    """Baselines before and after, by file; None: there was none, or there is none any more."""
    lines: list[str] = []
    file = ""
    for path, case, before, after in changes:
        if path != file:
            lines += ["", f"baselines written: {path}"]
            file = path
        label = f"{case.dtype} {payload_text(case.payload_bytes)}"
        lines.append(
            f"    {label:<16} {_baseline_text(case, before)} -> {_baseline_text(case, after)}"
        )
    return lines


def _baseline_text(case: Case, baseline: Baseline | None) -> str:
    if baseline is None:
        return "none"
    level_s, pinned_s = baseline.level_s, baseline.pinned_s
    if level_s is None or pinned_s is None:
        return "out of memory"
    bare = case.workload.is_bare
    rate = f"{metrics.busbw_gb_per_s(case, level_s):.4g} GB/s busbw, " if bare else ""
    counts = f"{len(baseline.times_s)} launches of {len(baseline.sessions)} sessions"
    pin = f"pinned {seconds_text(pinned_s)}"
    return f"{seconds_text(level_s)} ({rate}{counts}, {pin})"
