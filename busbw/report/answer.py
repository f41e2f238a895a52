"""The end of the terminal output: the cases that failed in a few lines, worst first.

The numbers of a failure are in the tables, and its reason is here alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import wire
from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import (
    Outcome,
    SessionOutcome,
    payload_text,
    plural,
    ratio_text,
    shorten_list,
)

from .table import TextLine
from .verdicts import RED, span_of

# From the worst on; other outcomes follow in any order.
_WORST = (
    Outcome.FAILED,
    Outcome.COMPILE_ERROR,
    Outcome.OUT_OF_MEMORY,
    Outcome.REGRESSED,
    Outcome.CHANGED,
    Outcome.INCOMPARABLE,
    Outcome.NO_BASELINE,
)
_MOST_SIZES = 4
_MOST_LINES = 8
# A longer reason is cut; the whole reason is with its case.
_MOST_CHARACTERS = 300


def answer_lines(
    verdicts: Sequence[Verdict], session: SessionVerdict, since: Sequence[str] = ()
) -> list[TextLine]:
    """Return `failed_lines`, the texts `since` when they fail, and last the line of the session."""
    passed = "green" if session.outcome is SessionOutcome.PASS else "yellow"
    last = TextLine(session.headline(), {"red" if session.failed else passed: True})
    failed = [TextLine(line, RED) for line in failed_lines(verdicts)]
    return [*failed, *map(TextLine, since), last]


def failed_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that name the failed cases, worst first.

    A line has all cases of a kind that failed with the same outcome, such as
    ``2 REGRESSED: jax 256K 3.50 x (limit 2.00 x), 64K 2.10 x (limit 1.90 x)``.
    """
    labels = _labels(verdicts)
    failed = [verdict for verdict in verdicts if verdict.failed]
    failed.sort(key=lambda verdict: (_rank(verdict), -(verdict.ratio or 0.0)))
    kinds = itertools.groupby(failed, key=lambda verdict: (_rank(verdict), labels[verdict.spec]))
    groups = [list(group) for _, group in kinds]
    lines = [_line(group, labels[group[0].spec]) for group in groups[:_MOST_LINES]]
    left_out = sum(map(len, groups[_MOST_LINES:]))
    return lines + ([f"and {plural(left_out, 'case')} more: see the tables"] if left_out else [])


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Lines on a failure as a program wrote them; the title names the cases that failed alike."""

    title: str
    lines: tuple[str, ...]

    @property
    def indented(self) -> tuple[str, ...]:
        """The lines below the title, after an empty line."""
        return ("", f"{self.title}:", *(f"    {line}" for line in self.lines))


def failure_logs(verdicts: Sequence[Verdict]) -> list[Log]:
    """Return details of failures, such as the ends of logs; cases that failed alike share them."""
    cases: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        _, *details = map(wire.without_workflow_commands, verdict.explain().splitlines())
        if verdict.failed and details:
            cases.setdefault(tuple(details), []).append(verdict.spec.id)
    return [
        Log(title=" ".join(shorten_list(names, 1, "case")), lines=lines)
        for lines, names in cases.items()
    ]


def _rank(verdict: Verdict) -> int:
    return _WORST.index(verdict.outcome) if verdict.outcome in _WORST else len(_WORST)


def _labels(verdicts: Sequence[Verdict]) -> Mapping[Spec, str]:
    """Return the kind of each case: ``jax``, or ``jax all_gather int32`` among several kinds."""
    kinds = {verdict.spec: verdict.spec.kind_names for verdict in verdicts}
    varies = [len(set(column)) > 1 for column in zip(*kinds.values())]
    labels = {}
    for spec, kind in kinds.items():
        # A program's name stands in place of a size.
        usual = ("", "default") if spec.is_sized else ("", "default", spec.strategy)
        words = [word for word, does in zip(kind, varies) if does and word not in usual]
        labels[spec] = " ".join([spec.framework, *words])
    return labels


def _line(group: Sequence[Verdict], label: str) -> str:
    head = f"{len(group)} {group[0].outcome.value}: {label}"
    if group[0].ratio is not None and group[0].outcome is not Outcome.CHANGED:
        return f"{head} {', '.join(shorten_list([*map(_ratio, group)], _MOST_SIZES, 'case'))}"
    reasons = itertools.groupby(group, key=lambda verdict: verdict.text)
    texts = [f"{span_of(list(alike))}: {_cut(reason)}" for reason, alike in reasons]
    return f"{head} {'; '.join(shorten_list(texts, _MOST_SIZES, 'reason'))}"


def _cut(reason: str) -> str:
    return reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}..."


def _ratio(verdict: Verdict) -> str:
    """Return the size of a case with its ratio and limit."""
    limit = "" if verdict.limit is None else f" (limit {ratio_text(verdict.limit)} x)"
    ratio = ratio_text(verdict.ratio or 0.0)
    return f"{payload_text(verdict.spec.payload_bytes)} {ratio} x{limit}"
