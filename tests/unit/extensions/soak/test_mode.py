"""The order in which a soak takes its cases, and the verdicts of a soak."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from busbw.driver.schedules import Side
from busbw.extensions.soak.mode import SoakRunner, amount_text, no_corruption_text
from busbw.extensions.soak.worker_comparison import Tally
from busbw.model.case import Case
from tests.helpers.workers import PLAN, case, keyed, stack


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
    assert f"error rate below {text}, " in no_corruption_text(Tally(iterations=iterations))


def test_the_case_that_was_soaked_for_the_shortest_time_has_the_next_turn_of_a_soak() -> None:
    soaked_s = {case(1024): 2.5, case(2048): 1.0}
    order: list[Case] = []

    def ask(request: Any, *_: Any) -> Tally:
        """Answer as a worker would that ends after five turns."""
        order.append(cast(Case, request.values["case"]))
        group.has_ended = len(order) == 5
        return Tally(iterations=1, soaked_s=soaked_s[order[-1]])

    group: Any = SimpleNamespace(ask=ask, has_ended=False)
    executor: Any = SimpleNamespace(spent_s={"starting": 0.0})
    stacks = {Side.CANDIDATE: stack()}
    cases = keyed(*soaked_s)
    runner = SoakRunner(executor, cases, PLAN, stacks, duration_s=60.0, _round=1)
    runner._measure_cases({Side.CANDIDATE: group}, [*cases])
    small, large = cases
    assert order == [small, large, large, large, small]
