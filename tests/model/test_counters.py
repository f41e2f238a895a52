"""What changes between two readings, and how it is said."""

from __future__ import annotations

from typing import Any

from busbw.model.counters import Counted, Reading

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
