"""Predicted and measured communication from synthetic rows: ratios, and where they agree."""

from __future__ import annotations

import pytest

from busbw.model.words import MIB
from busbw.studies.curve import Line
from busbw.studies.prediction import AGREEMENT, PredictedStep, agrees, document, prediction_page
from tests import build

SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)


def dense(payload_bytes: int, ratio: float | None, ranks: int = 2) -> PredictedStep:
    """A step of 10 ms whose all-reduce takes `ratio` times the millisecond predicted."""
    return PredictedStep(
        case=build.case(payload_bytes=payload_bytes, step="dense", ranks=ranks),
        step_s=1e-2,
        predicted_s=1e-3,
        how="measured",
        line=Line(latency_s=1e-3, bytes_per_s=MIB * 1e3),
        last_s=None if ratio is None else 1e-3 * ratio,
        first_s=5e-3,
    )


def strategy(name: str, step_s: float, **changes: object) -> PredictedStep:
    """A step of a net under a strategy, beside one device's 10 ms."""
    case = build.case(framework="tensorflow", strategy=name, step="cnn", ranks=2)
    fields = {"case": case, "step_s": step_s, "single_s": 1e-2} | changes
    return PredictedStep(**fields)  # type: ignore[arg-type]


def cells(*rows: PredictedStep) -> list[str]:
    """Of the last row of the page's table."""
    line = [one for one in prediction_page([], rows) if one.startswith("|")][-1]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("ratios", "shown", "holds"),
    [
        ((1.0, 1.1, 0.9, 1.2), "1.00, 1.10, 0.90, 1.20", "1M, 4M, 16M, 64M"),
        ((2.0, 3.0, 1.3, 6.0), "2.00, 3.00, 1.30, 6.00", "nowhere"),
        ((None, None, 1.0, 2.0), "-, -, 1.00, 2.00", "16M"),
    ],
)
def test_where_the_curve_holds_is_said_by_the_figures(
    ratios: tuple[float | None, ...], shown: str, holds: str
) -> None:
    found = cells(*(dense(size, ratio) for size, ratio in zip(SIZES, ratios)))
    assert (found[1], found[3], found[5]) == ("1M, 4M, 16M, 64M", shown, holds)


def test_each_number_of_ranks_has_a_row_of_its_own() -> None:
    page = prediction_page([], [dense(MIB, 3.0, ranks=4), dense(MIB, 1.0, ranks=2)])
    assert len([line for line in page if line.startswith("| jax all_reduce")]) == 2


def test_the_line_is_compared_beside_the_curve() -> None:
    (found,) = document([dense(MIB, 4.0)])
    assert (found["ratio"], found["line_s"], found["line_ratio"]) == (4.0, 2e-3, 2.0)
    assert (found["share"], found["first_s"], found["agrees"]) == (0.4, 5e-3, False)
    assert cells(dense(MIB, 4.0))[2:5] == ["4 ms", "4.00", "2.00"]


@pytest.mark.parametrize("sign", [1, -1])
def test_agreement_is_as_wide_upwards_as_downwards_and_ends_where_it_says(sign: int) -> None:
    assert agrees((1 + AGREEMENT - 1e-9) ** sign)
    assert not agrees((1 + AGREEMENT + 1e-9) ** sign)


def test_a_strategy_is_compared_by_what_it_takes_beyond_one_device() -> None:
    row = strategy("mirrored", 1.5e-2, predicted_s=4e-3, how="interpolated")
    assert row.measured_s == pytest.approx(5e-3)
    assert cells(row)[2:4] == ["5 ms", "1.25"]


def test_what_cannot_be_compared_has_no_ratio() -> None:
    unpredicted = strategy("central_storage", 1.2e-2, unpredicted="no curve of it")
    assert cells(unpredicted)[2:] == ["2 ms", "-", "-", "unpredicted: no curve of it"]
    assert cells(strategy("mirrored", 8e-3, predicted_s=1e-3))[2:4] == ["-2 ms", "-"]
    assert cells(strategy("mirrored", 8e-3, predicted_s=1e-3, single_s=None))[2:4] == ["-", "-"]
