"""Health counters in a verdict: notes, and throttling that explains a loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from busbw.extensions.soak.health import HEALTH_VALUE, Health, HealthChanges, health_finding
from busbw.extensions.soak.worker_health import HealthReading
from busbw.judge.decision import Finding
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
    return _find(HealthChanges().with_added_changes(BEFORE, after, prefix)).notes


def test_temperatures_and_throttling_for_less_than_1_percent_of_the_time_are_not_reported() -> None:
    assert _texts(_after(heat=0.05)) == ()


def test_the_duration_of_throttling_is_reported_unless_the_counter_of_a_device_is_new() -> None:
    # A quota that was changed has a new name.
    assert _texts(_after(None, heat=3.2, reliability=9.0, **{"CPU quota of 0.5": 2.0})) == (
        "gpu 0 heat: throttled for 3.2 s",
        "gpu 0 CPU quota of 0.5: throttled for 2 s",
    )


def test_errors_are_counted_from_the_first_launch_and_throttling_adds_up_over_launches() -> None:
    changes = HealthChanges().with_added_changes(
        BEFORE, _after({"gpu 0 PCIe replays": 2.0}, heat=1.0)
    )
    changes = changes.with_added_changes(BEFORE, _after({"gpu 0 PCIe replays": 6.0}, heat=2.0))
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
