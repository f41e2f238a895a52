"""`python -m busbw prediction`: rows, where they agree, the page, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw.model.case import Case, Spec
from busbw.model.launch import Measurement
from busbw.model.verdict import Curve, Verdict
from busbw.model.words import MIB
from busbw.studies.prediction import AGREEMENT, PredictedStep, agrees, document, prediction_page
from tests import build
from tests.report.written import results

from .asked import Answer, asked_here

SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)


def dense(payload_bytes: int, ratio: float | None, ranks: int = 2) -> PredictedStep:
    """A step of 10 ms whose all-reduce takes `ratio` times the millisecond predicted."""
    return PredictedStep(
        case=build.case(payload_bytes=payload_bytes, step="dense", ranks=ranks),
        step_s=1e-2,
        predicted_s=1e-3,
        how="measured",
        line=Curve(latency_s=1e-3, bandwidth_bytes_per_s=MIB * 1e3, rms_log_error=0.0),
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


# On two ranks: 10 us + S / (10 GB/s). The steps take ten times as long.
ALONE = {size: 1e-5 + size / 1e10 for size in (65536, MIB, 4 * MIB, 16 * MIB, 64 * MIB)}
CNN = "cnn"


def _spec(case: Case) -> Spec:
    return build.spec(
        framework=case.framework,
        payload_bytes=case.payload_bytes,
        strategy=case.strategy,
        dtype=case.dtype,
        ranks=case.ranks,
        workload=case.workload,
    )


def _timed(seconds: float, **changes: Any) -> Verdict:
    case = build.case(ranks=2, **changes)
    now = build.summary(times_s=(seconds, 2 * seconds, seconds / 2), median_s=seconds)
    return build.verdict(spec=_spec(case), case=case, now=now)


def _inside(verdict: Verdict, last_s: float) -> Measurement:
    """Three launches whose last rank took around `last_s`, the first one twice that."""
    assert verdict.case is not None
    runs = tuple(
        build.run(over_ranks_s={"fastest": last_s * n, "mean": last_s, "slowest": 2 * last_s * n})
        for n in (0.5, 1, 3)
    )
    return Measurement(case=verdict.case, runs=runs)


def _written(
    path: Path, verdicts: Sequence[Verdict], inside: Mapping[Spec, Measurement] | None = None
) -> Path:
    path.write_text(json.dumps(results(*verdicts, measurements=inside or {})))
    return path


def _session(path: Path, ratio: float, *, alone: bool = True, **changes: Any) -> Path:
    """Dense steps, their all-reduce `ratio` times the one alone, and those alone."""
    verdicts, inside = [], {}
    for size, alone_s in ALONE.items():
        step = _timed(10 * alone_s, payload_bytes=size, step="dense", protocol="host/step")
        verdicts.append(step)
        inside[step.spec] = _inside(step, ratio * alone_s)
        if alone:
            verdicts.append(_timed(alone_s, payload_bytes=size, **changes))
    return _written(path, verdicts, inside)


def _strategies(path: Path, *names: str, seconds: float = 2e-3) -> Path:
    """Steps of a net of 140 KiB, 2 ms under each strategy but one device's 1 ms."""
    net = {"framework": "tensorflow", "payload_bytes": 140 * 1024, "step": CNN}
    times = {name: 1e-3 if name == "one_device" else seconds for name in names}
    verdicts = [_timed(time_s, strategy=name, **net) for name, time_s in times.items()]
    ring = {"framework": "tensorflow", "strategy": "ring"}
    verdicts += [_timed(one, payload_bytes=size, **ring) for size, one in ALONE.items()]
    return _written(path, verdicts)


def prediction(*arguments: str | Path) -> Answer:
    return asked_here("prediction", *arguments)


def said(answer: Answer) -> str:
    """The page in one line."""
    assert (answer.code, answer.err) == (0, "")
    return " ".join(answer.out.split())


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    answer = prediction(*arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    found: list[dict[str, Any]] = answer.document
    return found


def test_the_all_reduce_inside_is_held_against_the_one_alone(tmp_path: Path) -> None:
    found = rows(_session(tmp_path / "a.json", 3.0))
    assert [row["payload_bytes"] for row in found] == list(ALONE)
    for row, alone_s in zip(found, ALONE.values()):
        assert row["predicted_s"] == pytest.approx(alone_s)
        # The line was fitted to points that lie on one.
        assert row["line_s"] == pytest.approx(alone_s, rel=0.01)
        assert (row["last_s"], row["first_s"]) == pytest.approx((3 * alone_s, 6 * alone_s))
        assert row["share"] == pytest.approx(0.3)
        assert (row["how"], row["agrees"]) == ("measured", False)


def test_several_files_make_one_page(tmp_path: Path) -> None:
    dense = _session(tmp_path / "a.json", 3.0)
    net = _strategies(tmp_path / "b.json", "one_device", "mirrored")
    page = said(prediction(dense, net))
    assert "3.00, 3.00, 3.00, 3.00, 3.00 | nowhere |" in page
    assert "tensorflow cnn, mirrored, 2 ranks | 140K | 1 ms |" in page
    assert page.count("Measured on AMD EPYC, 2 cores.") == 1


def test_another_file_s_curve_predicts_where_it_is_named(tmp_path: Path) -> None:
    steps = _session(tmp_path / "steps.json", 1.0, alone=False)
    curve = _session(tmp_path / "curve.json", 1.0)
    assert "| 64K, 1M, 4M, 16M, 64M |" in said(prediction(steps, f"--curve={curve}"))
    assert f"Predicted from {curve}" in said(prediction(steps, f"--curve={curve}"))


def test_a_strategy_s_curve_is_that_of_the_ring_of_its_framework(tmp_path: Path) -> None:
    (row,) = rows(_strategies(tmp_path / "a.json", "one_device", "mirrored"))
    assert row["measured_s"] == pytest.approx(1e-3)
    assert ALONE[65536] < row["predicted_s"] < ALONE[MIB]
    assert row["how"] == "interpolated"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("parameter_server", "no all-reduce, but servers"),
        ("central_storage", "no all-reduce, but one device"),
        ("multi_worker_mirrored", "between processes"),
        ("tpu", "no curve of tpu is measured"),
    ],
)
def test_a_strategy_that_has_no_curve_is_not_predicted_by_another_s(
    tmp_path: Path, name: str, why: str
) -> None:
    file = _strategies(tmp_path / "a.json", "one_device", name)
    (row,) = rows(file)
    assert (row["predicted_s"], row["ratio"]) == (None, None)
    assert f"unpredicted: {why}" in said(prediction(file))


def test_a_ring_on_other_ranks_predicts_nothing(tmp_path: Path) -> None:
    file = _strategies(tmp_path / "a.json", "one_device", "mirrored")
    document = json.loads(file.read_text())
    for row in document["cases"]:
        if not row["case"]["step"]:
            row["case"]["ranks"] = 4
    file.write_text(json.dumps(document))
    assert "no ring of tensorflow was measured on 2 ranks" in said(prediction(file))


def test_a_file_without_steps_of_several_ranks_is_refused(tmp_path: Path) -> None:
    none = _written(tmp_path / "a.json", [_timed(1.0)])
    prediction(none).refuses("busbw prediction: ", "a.json: holds no time of a training step")
    alone = _strategies(tmp_path / "a.json", "one_device")
    prediction(alone).refuses("no training step of several ranks")


@pytest.mark.parametrize("changes", [{"alone": False}, {"dtype": "float64"}])
def test_steps_without_their_all_reduce_alone_are_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    says = "jax.dense_step.all_reduce.psum.float32.64K on 2 ranks: no all-reduce alone of this kind"
    prediction(_session(tmp_path / "a.json", 1.0, **changes)).refuses(says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"schema": 9, "cases": []}, "this does not say what it is; accepted is "),
        ({"entries": []}, "this does not say what it is"),
        ([], "neither results of a session"),
    ],
)
def test_another_file_is_refused_with_its_name(tmp_path: Path, content: Any, says: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(content))
    prediction(file).refuses(f"{file}: {says}")


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("launches",), 3, "cases[0].launches: expected a list"),
        (("launches", 0, "over_ranks_s"), {"fastest": "a"}, "cases[0].launches[0].over_ranks_s"),
        (("launches", 0, "over_ranks_s"), {"slowest": 1.0}, "over_ranks_s: expected seconds above"),
        (("now", "times_s"), [0.0], "cases[0].now.times_s[0]: expected a number above 0"),
    ],
)
def test_what_is_wrong_inside_is_refused_with_its_place(
    tmp_path: Path, place: tuple[Any, ...], value: Any, says: str
) -> None:
    file = _session(tmp_path / "a.json", 1.0)
    document = json.loads(file.read_text())
    inner = document["cases"][0]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    file.write_text(json.dumps(document))
    prediction(file).refuses(f"{file}: ", says)
