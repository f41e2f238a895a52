"""Signatures of sums: what another one is called, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.judge.summation_order import check_order, signature_of
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from tests.helpers import build

RING, DOUBLED = "5e1c09af ring", "0a1b2c3d recursive doubling"


def _verdict(**changes: Any) -> Verdict:
    fields = {"outcome": Outcome.PASS, "failed": False, "text": "as before", **changes}
    return Verdict(spec=build.spec(), **fields)


def _ordered(*signatures: str, before: str = RING, **options: Any) -> Verdict:
    runs = [build.run(signature=signature) for signature in signatures]
    arguments = {"since": ("jax 0.10.1 -> 0.10.2",), "required": False, **options}
    return check_order(_verdict(), runs, before, **arguments)


@pytest.mark.parametrize(
    ("signatures", "before"),
    [((RING, RING), RING), ((RING, RING), ""), (("", ""), RING), ((), RING)],
)
def test_the_same_one_and_one_that_is_not_known_say_nothing(
    signatures: tuple[str, ...], before: str
) -> None:
    assert _ordered(*signatures, before=before) == _verdict()


def test_after_an_upgrade_another_one_is_a_note_with_both_versions() -> None:
    verdict = _ordered(DOUBLED, DOUBLED)
    assert (verdict.outcome, verdict.failed) == (Outcome.PASS, False)
    assert verdict.notes == (
        f"another order of additions (jax 0.10.1 -> 0.10.2): {RING} -> {DOUBLED}",
    )


def test_on_the_same_stack_it_is_called_a_fault_or_chance() -> None:
    (note,) = _ordered(DOUBLED, DOUBLED, since=()).notes
    assert "(the same stack: a fault, or an order that is chosen by chance)" in note


def test_launches_that_differ_have_no_signature() -> None:
    (note,) = _ordered(RING, DOUBLED, before="").notes
    assert note == f"no signature: 2 launches added up in several orders: {DOUBLED}, {RING}"
    assert signature_of([build.run(signature=signature) for signature in (RING, DOUBLED)]) == ""
    assert signature_of([build.run(signature=RING)] * 3) == RING


@pytest.mark.parametrize("signatures", [(DOUBLED, DOUBLED), (DOUBLED, RING)])
def test_where_it_is_required_another_one_fails(signatures: tuple[str, ...]) -> None:
    verdict = _ordered(*signatures, required=True)
    assert (verdict.outcome, verdict.failed, verdict.notes) == (Outcome.CHANGED, True, ())


@pytest.mark.parametrize(("signature", "before"), [(RING, ""), ("", RING)])
def test_where_it_is_required_one_that_is_missing_fails(signature: str, before: str) -> None:
    verdict = _ordered(signature, signature, before=before, required=True)
    assert (verdict.outcome, verdict.failed) == (Outcome.CHANGED, True)
    assert verdict.text.startswith("no signature to compare: ")


def test_what_failed_otherwise_stays_that() -> None:
    failed = _verdict(outcome=Outcome.FAILED, failed=True)
    runs = [build.run(signature=DOUBLED)]
    verdict = check_order(failed, runs, RING, (), required=True)
    assert (verdict.outcome, len(verdict.notes)) == (Outcome.FAILED, 1)
