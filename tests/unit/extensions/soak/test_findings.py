"""Findings on a case: changed health counters, throttling, and another order of additions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from busbw.extensions.soak.findings import (
    HEALTH_VALUE,
    Health,
    HealthChanges,
    health_finding,
    order_problem_text,
)
from busbw.extensions.soak.worker_health import HealthReading
from busbw.judge.decision import Finding
from busbw.model.launch import Run
from busbw.model.verdict import Verdict
from busbw.model.words import Outcome
from tests.helpers import build

CASE, SPEC = build.case(), build.spec()
BEFORE = HealthReading(
    host="b",
    read_s=100.0,
    errors={"gpu 0 PCIe replays": 1},
    throttled_s={"gpu 0 power cap": 5.0, "gpu 0 heat": 0.0},
    values={"gpu 0 temperature C": 33},
)


def _after(errors: dict[str, float] | None = None, **throttled_s: float) -> HealthReading:
    return HealthReading(
        host="b",
        read_s=110.0,
        errors={**BEFORE.errors, **(errors or {})},
        throttled_s={**BEFORE.throttled_s, **{f"gpu 0 {n}": s for n, s in throttled_s.items()}},
        values={"gpu 0 temperature C": 80},
    )


def _texts(after: HealthReading, prefix: str = "") -> tuple[str, ...]:
    changes = HealthChanges()
    changes.add_changes(BEFORE, after, prefix)
    return _find(changes).notes


def test_temperatures_and_throttling_for_less_than_1_percent_of_the_time_are_not_reported() -> None:
    assert _texts(_after(heat=0.05)) == ()


def test_the_duration_of_throttling_is_reported_unless_the_counter_of_a_device_is_new() -> None:
    assert _texts(_after(None, heat=3.2, reliability=9.0)) == ("gpu 0 heat: throttled for 3.2 s",)


def test_errors_are_counted_from_the_first_launch_and_throttling_adds_up_over_launches() -> None:
    changes = HealthChanges()
    for count, heat in ((2.0, 1.0), (6.0, 2.0)):
        changes.add_changes(BEFORE, _after({"gpu 0 PCIe replays": count}, heat=heat))
    assert _find(changes).notes == ("gpu 0 PCIe replays 1 -> 6", "gpu 0 heat: throttled for 3 s")


HOT = HealthChanges(errors={"gpu 0 PCIe replays": (1, 3)}, throttled_s={"gpu 1 heat": 12.3})


def _find(
    changes: HealthChanges, ratio: float = 0.0, sampling_s: float = 0.0, *, paired: bool = False
) -> Finding:
    run = build.run(phases_s={"sampling": sampling_s})
    measured: Any = SimpleNamespace(
        extra={HEALTH_VALUE: Health(readings=(), changes={CASE.name: changes})},
        jobs={SPEC: SimpleNamespace(case=CASE)},
        measurements={SPEC: SimpleNamespace(runs=(run,))},
        options=SimpleNamespace(is_paired=paired),
    )
    verdict = Verdict(
        spec=SPEC, outcome=Outcome.REGRESSED, failed=True, text="so", ratio=ratio or None
    )
    return health_finding(measured, SPEC, verdict)


def test_error_counters_or_throttling_of_interleaved_stacks_give_notes_and_no_doubt() -> None:
    for finding in (_find(HealthChanges(errors=HOT.errors)), _find(HOT, paired=True)):
        assert finding.notes and not finding.doubt


def test_throttling_gives_a_verdict_a_doubt_only_if_it_took_a_third_of_the_lost_time() -> None:
    assert _find(HOT, 2.0, sampling_s=70.0).doubt
    # Half of 100 s are lost, and 12.3 s are less than a third of the loss.
    assert not _find(HOT, 2.0, sampling_s=100.0).doubt


RING, DOUBLED = "5e1c09af ring", "0a1b2c3d recursive doubling"


def _run(signature: str, version: str) -> Run:
    return build.run(extra={"signature": signature}, versions={"jax": version})


def _text(*signatures: str, before: str | None = RING, is_required: bool = False) -> str:
    reference = [] if before is None else [_run(before, "0.10.1")]
    runs = [_run(signature, "0.10.2") for signature in signatures]
    return order_problem_text(runs, reference, is_required=is_required)


@pytest.mark.parametrize(
    ("signatures", "before"),
    [
        ((RING, RING), RING),
        ((RING, RING), ""),
        ((RING, RING), None),
        (("", ""), RING),
        (("", ""), ""),
        ((), RING),
    ],
)
def test_an_equal_or_unknown_signature_does_not_count_as_a_changed_order_of_additions(
    signatures: tuple[str, ...], before: str | None
) -> None:
    assert _text(*signatures, before=before) == ""


def test_a_case_has_no_signature_if_the_signatures_of_its_launches_differ() -> None:
    text = f"no signature: 2 launches added up in several orders: {DOUBLED}, {RING}"
    assert _text(RING, DOUBLED, before="") == _text(RING, DOUBLED, before=None) == text


@pytest.mark.parametrize(("signature", "before"), [(RING, ""), ("", RING)])
def test_a_required_signature_that_only_the_session_or_only_its_reference_has_is_described(
    signature: str, before: str
) -> None:
    text = _text(signature, before=before, is_required=True)
    assert text.endswith(f": {before or 'none'} -> {signature or 'none'}")
    assert _text("", before="", is_required=True) == ""
