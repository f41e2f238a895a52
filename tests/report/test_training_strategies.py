"""Training under strategies side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.training import CNN, CNN_BYTES
from busbw.model.verdict import Verdict
from busbw.report.renderers import rendered
from busbw.report.session import strategy_tables
from tests import build

from .lines import verdict_lines


def _verdict(strategy: str, step_s: float = 1e-3, **changes: Any) -> Verdict:
    spec = build.spec(framework="tensorflow", strategy=strategy, step=CNN, payload_bytes=CNN_BYTES)
    ranks = 1 if strategy == "one_device" else 4
    case = build.case(framework="tensorflow", strategy=strategy, step=CNN, ranks=ranks)
    now = build.summary(median_s=step_s)
    return replace(build.verdict(spec=spec, case=case, now=now), **changes)


def _measured(verdict: Verdict, *copies: str, **changes: Any) -> tuple[Spec, Measurement]:
    trained = build.training_run(last_digests=dict.fromkeys(copies or ("all",), "d"), **changes)
    assert verdict.case is not None
    runs = (build.run(training=trained),)
    return verdict.spec, Measurement(case=verdict.case, runs=runs)


def strategy_lines(verdicts: Sequence[Verdict], measured: Mapping[Spec, Measurement]) -> list[str]:
    """As a terminal shows them."""
    return rendered("text", *strategy_tables(verdicts, measured))


def test_without_strategies_there_are_no_lines() -> None:
    assert strategy_lines([build.verdict()], {}) == []


def test_each_has_a_line_beside_one_device() -> None:
    alone, mirrored = _verdict("one_device", 2e-3), _verdict("mirrored", 5e-3)
    measured = dict(
        (
            _measured(alone, epochs_s=(1.0, 0.02, 0.03, 0.04), accuracy=0.9),
            _measured(mirrored, "replica 0", "replica 1", epochs_s=(2.0, 0.05), accuracy=0.912),
        )
    )
    _, heading, _, _, *rows = strategy_lines([alone, mirrored], measured)
    assert heading.startswith("tensorflow, a small net trained under strategies, 10 steps an epoch")
    assert rows[0].split() == [
        *("one_device", "1", "2", "ms", "1.00", "30", "ms", "1", "s", "90.0", "-"),
    ]
    assert rows[1].split() == [
        *("mirrored", "4", "5", "ms", "2.50", "50", "ms", "2", "s", "91.2", "yes"),
    ]


def test_without_one_device_there_is_nothing_to_be_so_many_times_of() -> None:
    mirrored = _verdict("mirrored", 5e-3)
    row = strategy_lines([mirrored], dict((_measured(mirrored),)))[4]
    assert row.split()[:5] == ["mirrored", "4", "5", "ms", "100"]


def test_one_that_gave_no_time_has_no_line() -> None:
    failed = _verdict("mirrored", now=None)
    assert strategy_lines([failed], dict((_measured(failed),))) == []


def test_in_the_table_strategies_share_a_group_and_are_named() -> None:
    verdicts = [_verdict("mirrored"), _verdict("central_storage")]
    lines = [line.text for line in verdict_lines(verdicts)]
    assert lines[1] == (
        "tensorflow training under strategies, steps of 143656 bytes of float32 gradient"
    )
    assert [line.split()[0] for line in lines[2:] if line.strip()] == [
        *("strategy", "us", "mirrored", "central_storage"),
    ]
    assert lines[4].index("1000.0") == lines[5].index("1000.0")
