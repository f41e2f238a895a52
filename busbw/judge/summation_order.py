"""Compare the order in which a sum was added up with the order before, by signatures."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model.launch import Run
from busbw.model.words import plural


def signature_of(runs: Sequence[Run]) -> str:
    """Return the signature that all launches have; empty without a signature, or with several."""
    signatures = {run.signature for run in runs}
    return signatures.pop() if len(signatures) == 1 else ""


def change_text(runs: Sequence[Run], before: str, since: Sequence[str]) -> str:
    """Return how the order of additions changed, or that launches differ; empty for no change.

    Args:
        runs: The launches of the case.
        before: The signature that the case had, empty for none.
        since: The changes of the stack since then.

    """
    signatures = sorted({run.signature for run in runs if run.signature})
    if len(signatures) > 1:
        count = plural(len(runs), "launch")
        return f"no signature: {count} added up in several orders: {', '.join(signatures)}"
    if before and signatures and before not in signatures:
        same = "the same stack: a fault, or an order that is chosen by chance"
        stack = ", ".join(since) or same
        return f"another order of additions ({stack}): {before} -> {signatures[0]}"
    return ""
