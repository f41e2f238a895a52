"""The batched judge and the product decide alike, session by session."""

from __future__ import annotations

import pytest

from evidence import agreement


def test_both_agree_on_three_cases() -> None:
    (last,) = agreement.rows(2, 12, 7, ["3 cases"])
    assert last == "24 sessions judged by both, 0 differ"


@pytest.mark.exhaustive
def test_both_agree_on_every_kind_of_noise_and_loss() -> None:
    found = list(agreement.rows(1, 20, 11))
    assert found == [f"{20 * len(agreement.KINDS)} sessions judged by both, 0 differ"]
