"""Compare the order in which a sum was added up with the order before, by signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.model.launch import Run
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome, plural


def signature_of(runs: Sequence[Run]) -> str:
    """Return the signature that all launches have; empty without a signature, or with several."""
    signatures = {run.signature for run in runs}
    return signatures.pop() if len(signatures) == 1 else ""


def check_order(
    verdict: Verdict, runs: Sequence[Run], before: str, since: Sequence[str], *, required: bool
) -> Verdict:
    """Add a note to the verdict if the order of additions changed or is unknown.

    Args:
        verdict: The verdict so far.
        runs: The launches of the case.
        before: The signature that the case had, empty for none.
        since: The changes of the stack since then.
        required: Make the case CHANGED, which fails, unless it failed already.

    """
    signatures = sorted({run.signature for run in runs if run.signature})
    after = signatures[0] if len(signatures) == 1 else ""
    if len(signatures) > 1:
        count = plural(len(runs), "launch")
        text = f"no signature: {count} added up in several orders: {', '.join(signatures)}"
    elif before and after and after != before:
        same = "the same stack: a fault, or an order that is chosen by chance"
        text = f"another order of additions ({', '.join(since) or same}): {before} -> {after}"
    elif required and runs and bool(before) is not bool(after):
        text = f"no signature to compare: {before or 'none'} -> {after or 'none'}"
    else:
        return verdict
    if required and not verdict.failed:
        return replace(verdict, outcome=Outcome.CHANGED, failed=True, text=text)
    return replace(verdict, notes=(*verdict.notes, text))
