"""Signatures of sums: how another order of additions is described."""

from __future__ import annotations

import pytest

from busbw.extensions.soak.signatures import order_problem_text
from busbw.model.launch import Run
from tests.helpers import build

RING, DOUBLED = "5e1c09af ring", "0a1b2c3d recursive doubling"


def _run(signature: str, version: str) -> Run:
    return build.run(extra={"signature": signature}, versions={"jax": version})


def _text(*signatures: str, before: str | None = RING, is_required: bool = False) -> str:
    reference = [] if before is None else [_run(before, "0.10.1")]
    runs = [_run(signature, "0.10.2") for signature in signatures]
    return order_problem_text(runs, reference, is_required=is_required)


@pytest.mark.parametrize(
    ("signatures", "before"),
    [
        ((RING, RING), RING),
        ((RING, RING), ""),
        ((RING, RING), None),
        (("", ""), RING),
        (("", ""), ""),
        ((), RING),
    ],
)
def test_an_equal_or_unknown_signature_does_not_count_as_a_changed_order_of_additions(
    signatures: tuple[str, ...], before: str | None
) -> None:
    assert _text(*signatures, before=before) == ""


def test_a_case_has_no_signature_if_the_signatures_of_its_launches_differ() -> None:
    text = f"no signature: 2 launches added up in several orders: {DOUBLED}, {RING}"
    assert _text(RING, DOUBLED, before="") == _text(RING, DOUBLED, before=None) == text


@pytest.mark.parametrize(("signature", "before"), [(RING, ""), ("", RING)])
def test_a_required_signature_that_only_the_session_or_only_its_reference_has_is_described(
    signature: str, before: str
) -> None:
    text = _text(signature, before=before, is_required=True)
    assert text.endswith(f": {before or 'none'} -> {signature or 'none'}")
    assert _text("", before="", is_required=True) == ""
