"""The letters of outcomes in the progress line."""

from __future__ import annotations

import pytest

from busbw.model.case import Spec
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from busbw.plugin.items import letters_text


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_letter(outcome: Outcome) -> None:
    spec = Spec(framework="fake", payload_bytes=1024)
    text = letters_text([Verdict(spec=spec, outcome=outcome, failed=False, text="")])
    assert text.startswith("letters in the progress line: ") and f" {outcome.value};" in text
