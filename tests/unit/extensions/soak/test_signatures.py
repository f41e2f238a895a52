"""Signatures of sums: how another order of additions is described."""

from __future__ import annotations

import pytest

from busbw.extensions.soak.signatures import common_signature, order_problem_text
from busbw.model.launch import Run
from tests.helpers import build

RING, DOUBLED = "5e1c09af ring", "0a1b2c3d recursive doubling"
UPGRADE = ("jax 0.10.1 -> 0.10.2",)


def _run(signature: str) -> Run:
    return build.run(extra={"signature": signature})


def _text(*signatures: str, before: str = RING, since: tuple[str, ...] = UPGRADE) -> str:
    return order_problem_text([_run(signature) for signature in signatures], before, since)


@pytest.mark.parametrize(
    ("signatures", "before"),
    [((RING, RING), RING), ((RING, RING), ""), (("", ""), RING), ((), RING)],
)
def test_an_equal_or_unknown_signature_does_not_count_as_a_changed_order_of_additions(
    signatures: tuple[str, ...], before: str
) -> None:
    assert _text(*signatures, before=before) == ""


def test_a_case_has_no_signature_if_the_signatures_of_its_launches_differ() -> None:
    text = f"no signature: 2 launches added up in several orders: {DOUBLED}, {RING}"
    assert _text(RING, DOUBLED, before="") == text
    assert common_signature([_run(signature) for signature in (RING, DOUBLED)]) == ""
    assert common_signature([_run(RING)] * 3) == RING
