"""Whether the additions of a sum are made in the order of before, by their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.model.launch import Run
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural


def signature_of(runs: Sequence[Run]) -> str:
    """Return the signature that all launches have; "" without a signature, or with several."""
    found = {run.signature for run in runs}
    return found.pop() if len(found) == 1 else ""


def with_order(
    verdict: Verdict, runs: Sequence[Run], before: str, since: Sequence[str], *, required: bool
) -> Verdict:
    """`before` is the signature that the case had, `since` what its stack has other than then.

    It is CHANGED only where the same order is `required`, and nothing else failed.
    """
    found = sorted({run.signature for run in runs if run.signature})
    now = found[0] if len(found) == 1 else ""
    if len(found) > 1:
        count = plural(len(runs), "launch")
        text = f"no signature: {count} added up in several orders: {', '.join(found)}"
    elif before and now and now != before:
        what = ", ".join(since) or "the same stack: a fault, or an order that is chosen by chance"
        text = f"another order of additions ({what}): {before} -> {now}"
    elif required and runs and bool(before) is not bool(now):
        text = f"no signature to compare: {before or 'none'} -> {now or 'none'}"
    else:
        return verdict
    if required and not verdict.failed:
        return replace(verdict, outcome=Outcome.CHANGED, failed=True, text=text)
    return replace(verdict, notes=(*verdict.notes, text))
