"""The answer: the cases that failed in a few lines, worst first, and what is known of each failure.

The end of what a terminal shows. A failure is said here and not a second time elsewhere; its
numbers are in the tables. Takes what the judge decided, decides nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, payload_text, plural

from .table import TextLine, ratio_text, span_text

_RED = {"red": True, "bold": True}

# From the worst on; the rest in any order.
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
# Of the sentences of a line: all of each is with the case.
_MOST_CHARACTERS = 750


def answer_lines(verdicts: Sequence[Verdict], session: SessionVerdict) -> list[TextLine]:
    """Such as ``2 REGRESSED: jax 256K 3.50 x (limit 2.00 x), 64K 2.10 x``; last the session's."""
    labels = _Labels(verdicts)
    failed = sorted((one for one in verdicts if one.failed), key=_gravity)
    groups = [
        list(alike)
        for _, alike in itertools.groupby(failed, key=lambda one: (_rank(one), labels.of(one)))
    ]
    lines = [_line(group, labels.of(group[0])) for group in groups[:_MOST_LINES]]
    left_out = sum(map(len, groups[_MOST_LINES:]))
    lines += [f"and {plural(left_out, 'case')} more: see the tables"] if left_out else []
    return [
        *(TextLine(line, _RED) for line in lines),
        TextLine(session.headline(), {"red" if session.failed else "green": True}),
    ]


def failure_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Beyond its reason, such as the end of a log; cases that failed alike share one account."""
    accounts: dict[tuple[str, ...], list[str]] = {}
    for one in verdicts:
        _, *account = one.explain().splitlines()
        if one.failed and account:
            accounts.setdefault(tuple(account), []).append(one.spec.id)
    lines = []
    for found, (first, *others) in accounts.items():
        more = f" and {plural(len(others), 'case')} more" if others else ""
        lines += ["", f"{first}{more}:", *(f"    {_inert(line)}" for line in found)]
    return lines


def _inert(line: str) -> str:
    """In the log of a workflow run, where ``::`` and ``##[`` begin commands, none of a worker's."""
    return re.sub(r"^(\s*)::", r"\1\\::", line).replace("##[", "#\\#[")


def _rank(verdict: Verdict) -> int:
    return _WORST.index(verdict.outcome) if verdict.outcome in _WORST else len(_WORST)


def _gravity(verdict: Verdict) -> tuple[int, float]:
    return _rank(verdict), -(verdict.ratio or 0.0)


class _Labels:
    """The names of kinds of cases: the framework, and what differs between cases of the session."""

    def __init__(self, verdicts: Sequence[Verdict]) -> None:
        parts = [self._parts(one) for one in verdicts]
        self._varies = [len(set(column)) > 1 for column in zip(*parts)]

    def of(self, verdict: Verdict) -> str:
        """Such as ``jax``, or ``jax all_gather int32`` among several collectives and dtypes."""
        first, *others = zip(self._parts(verdict), self._varies)
        return " ".join([first[0], *(part for part, varies in others if varies and part)])

    @staticmethod
    def _parts(verdict: Verdict) -> tuple[str, ...]:
        spec = verdict.spec
        strategy = spec.strategy if spec.strategy != "default" else ""
        return (
            spec.framework,
            spec.topology,
            spec.workload.word,
            spec.collective,
            spec.reduce_op,
            spec.placement,
            strategy,
            spec.dtype,
        )


def _line(group: Sequence[Verdict], label: str) -> str:
    head = f"{len(group)} {group[0].outcome.value}: {label}"
    if group[0].ratio is not None:
        return f"{head} {_listed(list(_ratios(group)), ', ')}"
    texts = [
        (text, _sizes([one.spec.payload_bytes for one in alike]))
        for text, alike in itertools.groupby(group, key=lambda one: one.text)
    ]
    most = _MOST_CHARACTERS // min(len(texts), _MOST_SIZES)
    cut = [(text if len(text) <= most else f"{text[:most]}...", sizes) for text, sizes in texts]
    return f"{head} {_listed([f'{sizes}: {text}' for text, sizes in cut], '; ')}"


def _sizes(payloads: Sequence[int]) -> str:
    """Each of a few, the first and the last of many."""
    few = len(payloads) <= _MOST_SIZES
    return ", ".join(map(payload_text, payloads)) if few else span_text(sorted(payloads))


def _listed(parts: Sequence[str], between: str) -> str:
    more = len(parts) - _MOST_SIZES
    shown = [*parts[:_MOST_SIZES], *([f"and {more} more"] if more > 0 else [])]
    return between.join(shown)


def _ratios(group: Sequence[Verdict]) -> Iterator[str]:
    """Each size with its ratio and the limit, where that is another than before."""
    limit = None
    for one in group:
        assert one.ratio is not None
        text = f"{payload_text(one.spec.payload_bytes)} {ratio_text(one.ratio)} x"
        shown = None if one.limit is None else ratio_text(one.limit)
        yield text if shown in (None, limit) else f"{text} (limit {shown} x)"
        limit = shown
