"""The verdicts of a soak."""

from __future__ import annotations

import pytest

from busbw.extensions.soak.mode import no_corruption_text
from busbw.extensions.soak.worker import Tally


def test_the_tallies_of_turns_add_up() -> None:
    turn = Tally(iterations=10, compared_bytes=100, soaked_s=2.0)
    assert sum([turn, turn], Tally()) == Tally(iterations=20, compared_bytes=200, soaked_s=4.0)


@pytest.mark.parametrize(
    ("iterations", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_upper_bound_of_the_error_rate_of_a_soak_is_the_clopper_pearson_bound(
    iterations: int, text: str
) -> None:
    tally = Tally(iterations=iterations)
    assert f"error rate below {text}, " in no_corruption_text(tally)
