"""The lines that end the terminal output: the failed cases, worst first, and the session's verdict.

The tables above these lines have the numbers of a failed case. The reason why a case failed is
only in these lines, unless pytest runs with -v.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw import wire
from busbw.model.case import CaseSpec
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
from .verdicts import RED, payloads_or_programs_text

# The outcomes of failed cases, the worst outcome first. All other outcomes follow.
_WORST_FIRST = (
    Outcome.FAILED,
    Outcome.COMPILE_ERROR,
    Outcome.OUT_OF_MEMORY,
    Outcome.REGRESSED,
    Outcome.CHANGED,
    Outcome.INCOMPARABLE,
    Outcome.NO_BASELINE,
)
_MAX_CASES = 4
_MAX_LINES = 8
# A longer reason is cut, because tables with -v and results contain the whole reason.
_MAX_REASON_CHARACTERS = 300


def conclusion_lines(
    verdicts: Sequence[Verdict],
    session_verdict: SessionVerdict,
    failing_since_texts: Sequence[str] = (),
) -> list[TextLine]:
    """Return the lines that end the terminal output; the verdict on the session is the last line.

    The lines of failed cases come first. They are followed by `failing_since_texts`, which say
    since when cases fail.
    """
    passed = "green" if session_verdict.outcome is SessionOutcome.PASS else "yellow"
    last = TextLine(session_verdict.headline(), {"red" if session_verdict.failed else passed: True})
    failed = [TextLine(line, RED) for line in failed_case_lines(verdicts)]
    return [*failed, *map(TextLine, failing_since_texts), last]


def failed_case_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines that name the failed cases, the worst cases first.

    Cases of the same kind (framework, collective, strategy and so on) that failed with the same
    outcome share a line, such as
    ``2 REGRESSED: jax 256K 3.50 x (limit 2.00 x), 64K 2.10 x (limit 1.90 x)``.
    """
    labels = _labels_by_spec(verdicts)
    failed = [verdict for verdict in verdicts if verdict.failed]
    failed.sort(key=lambda verdict: (_severity(verdict), -(verdict.ratio or 0.0)))
    kinds = itertools.groupby(
        failed, key=lambda verdict: (_severity(verdict), labels[verdict.spec])
    )
    groups = [list(group) for _, group in kinds]
    lines = [_failure_line(group, labels[group[0].spec]) for group in groups[:_MAX_LINES]]
    left_out = sum(map(len, groups[_MAX_LINES:]))
    return lines + ([f"and {plural(left_out, 'case')} more: see the tables"] if left_out else [])


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureLog:
    """The details of a failure as lines of text, such as the end of a worker's log.

    `title` names the first case that failed with these details, and the number of further cases.
    """

    title: str
    lines: tuple[str, ...]

    @property
    def indented_lines(self) -> tuple[str, ...]:
        """An empty line, the title, and the details indented by four spaces."""
        return ("", f"{self.title}:", *(f"    {line}" for line in self.lines))


def failure_logs(verdicts: Sequence[Verdict]) -> list[FailureLog]:
    """Return the details of all failures; cases with the same details share a FailureLog.

    Failed cases without details, such as slower cases, are left out.
    """
    cases: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        _, *details = map(wire.without_workflow_commands, verdict.explain().splitlines())
        if verdict.failed and details:
            cases.setdefault(tuple(details), []).append(verdict.spec.id)
    return [
        FailureLog(title=" ".join(shorten_list(names, 1, "case")), lines=lines)
        for lines, names in cases.items()
    ]


def _severity(verdict: Verdict) -> int:
    """Return the index of the verdict's outcome, sorted by severity; the worst outcome has 0."""
    return (
        _WORST_FIRST.index(verdict.outcome)
        if verdict.outcome in _WORST_FIRST
        else len(_WORST_FIRST)
    )


def _labels_by_spec(verdicts: Sequence[Verdict]) -> Mapping[CaseSpec, str]:
    """Return the label of each case, such as ``jax`` or ``jax all_gather int32``.

    A label consists of the framework, and of the properties of the case that differ among the
    cases.
    """
    kinds = {verdict.spec: verdict.spec.kind_names for verdict in verdicts}
    varies = [len(set(column)) > 1 for column in zip(*kinds.values())]
    labels = {}
    for spec, kind in kinds.items():
        # For a program, its name (the strategy) is shown where other cases show the payload.
        usual = ("", "default") if spec.is_sized else ("", "default", spec.strategy)
        words = [word for word, does in zip(kind, varies) if does and word not in usual]
        labels[spec] = " ".join([spec.framework, *words])
    return labels


def _failure_line(group: Sequence[Verdict], label: str) -> str:
    """Return the line for failed cases that have the same outcome and the same `label`."""
    head = f"{len(group)} {group[0].outcome.value}: {label}"
    if group[0].ratio is not None and group[0].outcome is not Outcome.CHANGED:
        return f"{head} {', '.join(shorten_list([*map(_ratio_text, group)], _MAX_CASES, 'case'))}"
    reasons = itertools.groupby(group, key=lambda verdict: verdict.text)
    texts = [
        f"{payloads_or_programs_text(list(alike))}: {reason[:_MAX_REASON_CHARACTERS]}"
        + ("..." if len(reason) > _MAX_REASON_CHARACTERS else "")
        for reason, alike in reasons
    ]
    return f"{head} {'; '.join(shorten_list(texts, _MAX_CASES, 'reason'))}"


def _ratio_text(verdict: Verdict) -> str:
    """Return a text with the payload of a case, its ratio and its limit."""
    limit = "" if verdict.limit is None else f" (limit {ratio_text(verdict.limit)} x)"
    ratio = ratio_text(verdict.ratio or 0.0)
    return f"{payload_text(verdict.spec.payload_bytes)} {ratio} x{limit}"
