"""What changes between two readings, and how it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from busbw.model.counters import Counted, Quota, Reading

BEFORE = Reading(
    host="b",
    at_s=100.0,
    errors={"gpu 0 PCIe replays": 1, "gpu 0 ECC errors corrected": 0},
    throttled_s={"gpu 0 power cap": 5.0, "gpu 0 heat": 0.0},
    values={"gpu 0 temperature C": 33},
)


def _after(at_s: float = 110.0, **changes: dict[str, float]) -> Reading:
    fields: dict[str, Any] = {"errors": {**BEFORE.errors}, "throttled_s": {**BEFORE.throttled_s}}
    for name, values in changes.items():
        fields[name] = {**fields.get(name, {}), **values}
    return Reading(host="b", at_s=at_s, **fields)


def test_what_stays_as_it_is_and_what_only_describes_is_no_change() -> None:
    after = _after(values={"gpu 0 temperature C": 80}, throttled_s={"gpu 0 heat": 0.05})
    assert Counted.between(BEFORE, after).texts == ()


def test_an_error_is_told_from_its_number_before_to_that_of_now() -> None:
    after = _after(errors={"gpu 0 PCIe replays": 3, "gpu 0 link 3 NVLink replays": 7})
    assert Counted.between(BEFORE, after, "b, ").texts == (
        "b, gpu 0 PCIe replays 1 -> 3",
        "b, gpu 0 link 3 NVLink replays 0 -> 7",
    )


def test_throttling_is_told_with_its_time_and_a_score_as_it_is() -> None:
    after = _after(throttled_s={"gpu 0 power cap": 8.2}, scores={"tpu 3 throttle score": 4})
    found = Counted.between(BEFORE, after)
    assert found.throttling == ("gpu 0 power cap: throttled for 3.2 s", "tpu 3 throttle score 4")
    # Counted from the start of the driver: what was before is nobody's.
    assert not Counted.between(Reading(host="b", at_s=0.0), after).throttled_s


def test_of_several_launches_errors_go_from_the_first_and_throttling_adds_up() -> None:
    first = Counted.between(
        BEFORE, _after(errors={"gpu 0 PCIe replays": 2}, throttled_s={"gpu 0 heat": 1.0})
    )
    later = Counted(
        errors={"gpu 0 PCIe replays": (4, 6)},
        throttled_s={"gpu 0 heat": 2.0},
        scores={"tpu 0 throttle score": 1},
    )
    assert first.plus(later).texts == (
        "gpu 0 PCIe replays 1 -> 6",
        "gpu 0 heat: throttled for 3 s",
        "tpu 0 throttle score 1",
    )


QUOTA = Quota(cpus=0.25, period_s=0.1, periods=800, throttled_periods=100, throttled_s=7.0)


def _throttled(quotas: dict[str, Quota], before: dict[str, Quota]) -> Counted:
    first, last = (Reading(host="b", at_s=0.0, quotas=one) for one in (before, quotas))
    return Counted.between(first, last, "b, ")


def test_a_cpu_quota_is_told_with_its_periods_where_it_stopped_more_than_a_few() -> None:
    later = replace(QUOTA, periods=2000, throttled_periods=777, throttled_s=19.3)
    found = _throttled({"box": later, "new": later}, {"box": QUOTA})
    told = "b, throttled in 677 of 1,200 periods, 12.3 s, quota 0.25 CPU"
    assert found.texts == found.throttling == (told,)
    assert found.names == ("b, CPU quota",)
    again = found.plus(found)
    assert again.texts == ("b, throttled in 1,354 of 2,400 periods, 24.6 s, quota 0.25 CPU",)
    few = replace(QUOTA, periods=2000, throttled_periods=111, throttled_s=8.0)
    assert not _throttled({"box": few}, {"box": QUOTA}).texts


def test_what_was_counted_before_a_control_group_was_made_anew_is_left_out() -> None:
    anew = replace(QUOTA, periods=3, throttled_periods=2, throttled_s=0.1)
    assert not _throttled({"box": anew}, {"box": QUOTA}).texts
    assert not _throttled({"other": QUOTA}, {"box": QUOTA}).texts


def test_of_nested_control_groups_the_one_that_stopped_the_case_most_is_told() -> None:
    nothing = replace(QUOTA, periods=0, throttled_periods=0, throttled_s=0.0)
    outer = replace(QUOTA, cpus=2.0, throttled_periods=400, throttled_s=3.0)
    found = _throttled({"in": QUOTA, "out": outer}, {"in": nothing, "out": nothing})
    assert found.texts == ("b, throttled in 400 of 800 periods, 3 s, quota 2 CPU",)


def test_a_case_can_be_stopped_no_longer_than_its_throttled_periods() -> None:
    # Eight processors that wait at the same time count eight times.
    assert replace(QUOTA, throttled_s=80.0).stopped_s == 10.0
    assert QUOTA.stopped_s == 7.0
