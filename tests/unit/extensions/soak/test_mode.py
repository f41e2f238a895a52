"""The verdicts of a soak."""

from __future__ import annotations

import pytest

from busbw.extensions.soak.mode import amount_text, no_corruption_text
from busbw.extensions.soak.worker_comparison import Tally


@pytest.mark.parametrize(
    ("iterations", "compared_bytes", "text"),
    [
        (1, 0, "1 iteration, 0 bytes compared"),
        (999_999, 2**30, "999999 iterations, 1.0 GiB compared"),
        (1_100_000, 26 * 10**11, "1.1 million iterations, 2.6 TB compared"),
        (288_000_000, 10**12, "288.0 million iterations, 1.0 TB compared"),
    ],
)
def test_the_amount_that_a_soak_compared_is_written_with_its_nouns(
    iterations: int, compared_bytes: int, text: str
) -> None:
    assert amount_text(Tally(iterations=iterations, compared_bytes=compared_bytes)) == text


@pytest.mark.parametrize(
    ("iterations", "text"), [(1, "1 in 1.1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_upper_bound_of_the_error_rate_of_a_soak_is_the_clopper_pearson_bound(
    iterations: int, text: str
) -> None:
    tally = Tally(iterations=iterations)
    assert f"error rate below {text}, " in no_corruption_text(tally)
