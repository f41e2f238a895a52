"""Predicted and measured communication from synthetic rows: ratios, and the words made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from busbw import report
from busbw.commands.curve import Line
from busbw.model import MIB
from busbw.studies.prediction.page import prediction_page, prediction_table
from busbw.studies.prediction.steps import AGREEMENT, PredictedStep, agrees
from tests import build

SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)


def dense(payload_bytes: int, ratio: float | None, ranks: int = 2) -> PredictedStep:
    """A step of 10 ms whose all-reduce takes `ratio` times the millisecond predicted."""
    return PredictedStep(
        case=build.case(payload_bytes=payload_bytes, step="dense", ranks=ranks),
        step_s=1e-2,
        predicted_s=1e-3,
        how="measured",
        last_s=None if ratio is None else 1e-3 * ratio,
        first_s=5e-3,
    )


def strategy(name: str, step_s: float, **changes: object) -> PredictedStep:
    """A step of a net under a strategy, beside one device's 10 ms."""
    case = build.case(framework="tensorflow", strategy=name, step="cnn", ranks=2)
    fields = {"case": case, "step_s": step_s, "single_s": 1e-2} | changes
    return PredictedStep(**fields)  # type: ignore[arg-type]


def summary(*rows: PredictedStep) -> str:
    """The section in short, unwrapped."""
    lines = prediction_page(rows, ["a machine"])
    begin = lines.index("## In short")
    end = next(n for n in range(begin + 1, len(lines)) if lines[n].startswith("## "))
    return " ".join(line.strip() for line in lines[begin + 1 : end])


@pytest.mark.parametrize(
    ("ratios", "says"),
    [
        ((1.0, 1.1, 0.9, 1.2), "holds from 1M to 64M (0.90 to 1.20 times the predicted time)."),
        ((2.0, 3.0, 1.3, 6.0), "holds nowhere: from 1M to 64M it takes 1.30 to 6.00 times"),
        ((2.0, 3.0, 1.1, 1.0), "holds from 16M up (1.00 to 1.10 times the predicted"),
        ((2.0, 3.0, 1.1, 1.0), "not up to 4M (2.00 to 3.00 times)"),
        ((1.0, 1.0, 1.1, 2.0), "holds up to 16M (1.00 to 1.10 times the"),
        ((1.0, 1.0, 1.1, 2.0), "predicted time), not at 64M (2.00 times)"),
        ((1.0, 2.0, 1.0, 2.0), "holds at 1M and 16M (1.00 times the predicted time), not at 4M"),
        ((1.0, 2.0, 1.0, 2.0), "not at 4M and 64M (2.00 times)"),
        ((None, None, 1.0, 2.0), "holds at 16M (1.00 times the predicted time), not at 64M"),
        ((None, None, None, None), "cannot be compared: no recording"),
    ],
)
def test_where_the_curve_holds_is_said_by_the_figures(
    ratios: tuple[float | None, ...], says: str
) -> None:
    rows = [dense(size, ratio) for size, ratio in zip(SIZES, ratios)]
    by_the_curve, by_the_line = summary(*rows).removeprefix(" - ").split(" - ")
    assert says in by_the_curve
    assert "the line cannot be compared" in by_the_line


def test_each_number_of_ranks_has_a_sentence_and_a_table_of_its_own() -> None:
    rows = [dense(MIB, 3.0, ranks=4), dense(MIB, 1.0, ranks=2)]
    page = prediction_page(rows, ["a machine"])
    assert "2 ranks: the curve holds at 1M" in summary(*rows)
    assert "4 ranks: the curve holds nowhere: at 1M it takes 3.00 times" in summary(*rows)
    assert [line[-7:] for line in page if line.startswith("### ")] == ["2 ranks", "4 ranks"]


def test_the_line_is_compared_beside_the_curve() -> None:
    line = Line(latency_s=1e-3, bytes_per_s=MIB * 1e3)
    row = PredictedStep(
        case=build.case(payload_bytes=MIB, step="dense"),
        step_s=8e-3,
        predicted_s=4e-3,
        how="interpolated",
        line=line,
        last_s=4e-3,
        first_s=6e-3,
    )
    assert (row.ratio, row.line_s, row.line_ratio, row.share) == (1.0, 2e-3, 2.0, 0.5)
    page = prediction_page([row], ["a machine"])
    assert "The line: 1 ms + gradient / 1.05 GB/s." in page
    cells = [cell.strip() for cell in page[-1].strip("|").split("|")]
    shown = ["1M", "4 ms", "interpolated", "2 ms", "4 ms", "6 ms", "1.00", "2.00", "yes", "50 %"]
    assert cells == shown


@pytest.mark.parametrize("sign", [1, -1])
def test_agreement_is_as_wide_upwards_as_downwards_and_ends_where_it_says(sign: int) -> None:
    assert agrees((1 + AGREEMENT - 1e-9) ** sign)
    assert not agrees((1 + AGREEMENT + 1e-9) ** sign)


def test_a_strategy_is_compared_by_what_it_takes_beyond_one_device() -> None:
    row = strategy("mirrored", 1.5e-2, predicted_s=4e-3, how="interpolated")
    assert row.measured_s == pytest.approx(5e-3)
    said = summary(row)
    assert "tensorflow cnn, mirrored, 2 ranks: a step takes 5 ms beyond one device's" in said
    assert "1.25 times the 4 ms predicted by the curve, which " in said


BEYOND: Mapping[str, tuple[PredictedStep, str]] = {
    "without a curve": (
        strategy("central_storage", 1.2e-2, unpredicted="no curve of it"),
        "a step takes 2 ms beyond one device's; not predicted: no curve of it.",
    ),
    "a shorter step": (
        strategy("mirrored", 8e-3, predicted_s=1e-3),
        "a step does not take longer than one device's, but 2 ms less: nothing to compare",
    ),
    "without one device": (
        strategy("mirrored", 8e-3, predicted_s=1e-3, single_s=None),
        "one device's step was not measured",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_cannot_be_compared_is_said_in_words_and_has_no_ratio(name: str) -> None:
    row, says = BEYOND[name]
    assert says in summary(row)
    cells = [cell.strip() for cell in prediction_page([row], [])[-1].strip("|").split("|")]
    assert cells[7:9] == ["-", "-"]


def test_the_document_has_the_figures_and_whether_they_agree() -> None:
    rows = [dense(MIB, 2.0), dense(MIB, 1.0), strategy("central_storage", 1.2e-2, unpredicted="no")]
    document = report.rendered("json", prediction_table(rows))
    first, second, third = json.loads("\n".join(document))
    assert (first["ratio"], first["agrees"], second["agrees"], third["agrees"]) == (
        2.0,
        False,
        True,
        None,
    )
    assert (third["unpredicted"], third["predicted_s"]) == ("no", None)
