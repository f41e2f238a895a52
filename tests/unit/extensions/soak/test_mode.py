"""How long a launch soaks each case, and the texts of verdicts on soaks."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from busbw.driver.schedules import Side
from busbw.extensions.soak.mode import SoakRunner, amount_text, no_corruption_text
from busbw.extensions.soak.worker_comparison import Tally
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
    ("iterations", "text"), [(1, "1 in 1"), (59, "1 in 20"), (10**6, "1 in 330,000")]
)
def test_the_upper_bound_of_the_error_rate_of_a_soak_is_the_clopper_pearson_bound(
    iterations: int, text: str
) -> None:
    assert f"error rate below {text}, " in no_corruption_text(Tally(iterations=iterations))


def test_a_launch_soaks_each_case_for_its_share_of_the_duration_but_at_most_for_a_minute() -> None:
    seconds: list[float] = []

    def ask(request: Any, *_: Any) -> Tally:
        """Answer as a worker would."""
        seconds.append(cast(float, request.values["seconds"]))
        return Tally(iterations=1)

    group: Any = SimpleNamespace(ask=ask, has_ended=False)
    executor: Any = SimpleNamespace(time_phase=lambda phase: contextlib.nullcontext())
    cases = keyed(case(1024), case(2048))
    for duration_s in (10.0, 3600.0):
        runner = SoakRunner(executor, cases, PLAN, {Side.CANDIDATE: stack()}, duration_s=duration_s)
        assert runner._measure_cases({Side.CANDIDATE: group}, [*cases]) == ()
    assert seconds == [5.0, 5.0, 60.0, 60.0]
