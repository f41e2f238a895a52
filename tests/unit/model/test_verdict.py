"""A session fails unless its outcome is fine."""

from __future__ import annotations

import pytest

from busbw.model.verdict import SessionVerdict
from busbw.model.words import SessionOutcome


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_a_session_fails_unless_its_outcome_is_pass_or_nothing_compared(
    outcome: SessionOutcome,
) -> None:
    session = SessionVerdict(outcomes=(outcome,), text="")
    assert session.failed is (outcome not in (SessionOutcome.PASS, SessionOutcome.NOTHING_COMPARED))
