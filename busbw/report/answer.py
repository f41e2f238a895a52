"""The answer: the cases that failed in a few lines, worst first, and what is known of each failure.

The end of what a terminal shows. A failure is said here and not a second time elsewhere; its
numbers are in the tables. Takes what the judge decided, decides nothing.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence

from busbw.model.case import Spec
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome, payload_text, plural, ratio_text

from .table import TextLine, span_text

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


def answer_lines(
    verdicts: Sequence[Verdict], session: SessionVerdict, since: Sequence[str] = ()
) -> list[TextLine]:
    """Return what failed, since when, and last the session's line.

    Such as ``2 REGRESSED: jax 256K 3.50 x (limit 2.00 x), 64K 2.10 x``.
    """
    labels = _labels(verdicts)
    failed = [one for one in verdicts if one.failed]
    failed.sort(key=lambda one: (_rank(one), -(one.ratio or 0.0)))
    alike = itertools.groupby(failed, key=lambda one: (_rank(one), labels[one.spec]))
    groups = [list(group) for _, group in alike]
    lines = [_line(group, labels[group[0].spec]) for group in groups[:_MOST_LINES]]
    left_out = sum(map(len, groups[_MOST_LINES:]))
    lines += [f"and {plural(left_out, 'case')} more: see the tables"] if left_out else []
    passed = "green" if session.outcome is SessionOutcome.FINE else "yellow"
    last = TextLine(session.headline(), {"red" if session.failed else passed: True})
    return [*(TextLine(line, _RED) for line in lines), *map(TextLine, since), last]


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


# What names a kind of cases where it differs within a session.
_KIND = ("topology", "collective", "reduce_op", "placement", "strategy", "dtype")


def _labels(verdicts: Sequence[Verdict]) -> Mapping[Spec, str]:
    """The kind of each case: ``jax``, or ``jax all_gather int32`` among several of them."""
    kinds = {one.spec: operator.attrgetter(*_KIND)(one.spec) for one in verdicts}
    varies = [len(set(column)) > 1 for column in zip(*kinds.values())]
    words = {
        spec: [part for part, does in zip(kind, varies) if does and part not in _unsaid(spec)]
        for spec, kind in kinds.items()
    }
    return {spec: " ".join([spec.framework, *own]) for spec, own in words.items()}


def _unsaid(spec: Spec) -> tuple[str, ...]:
    """Usual words, and the name of a program, which stands where others have a size."""
    return ("", "default") if spec.workload.is_sized else ("", "default", spec.strategy)


def _line(group: Sequence[Verdict], label: str) -> str:
    head = f"{len(group)} {group[0].outcome.value}: {label}"
    if group[0].ratio is not None and group[0].outcome is not Outcome.CHANGED:
        return f"{head} {_listed(list(_ratios(group)), ', ')}"
    alike = [(text, list(of)) for text, of in itertools.groupby(group, key=lambda one: one.text)]
    most = _MOST_CHARACTERS // min(len(alike), _MOST_SIZES)
    texts = [
        f"{_sizes(of)}: {text if len(text) <= most else f'{text[:most]}...'}" for text, of in alike
    ]
    return f"{head} {_listed(texts, '; ')}"


def _sizes(group: Sequence[Verdict]) -> str:
    """Each of a few, the first and the last of many; a program has a name and no size."""
    if not group[0].spec.workload.is_sized:
        return _listed([one.spec.strategy for one in group], ", ")
    payloads = [one.spec.payload_bytes for one in group]
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
