"""What is said of an injection: what was asked for, and what it was measured to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.validity import injected_ratio, injection_notes, with_injections
from busbw.model.case import Spec
from busbw.model.launch import Measurement
from busbw.model.words import MIB
from tests import build

ASKED = "delay:3%@16M"


def _spec(mebibytes: int = 16) -> Spec:
    return build.spec(payload_bytes=mebibytes * MIB)


def _measured(*ratios: float | None, injected: str = ASKED) -> Measurement:
    runs = [build.run(1e-3, injected=injected, injected_ratio=ratio) for ratio in ratios]
    return Measurement(case=build.case(), runs=tuple(runs))


def _note(*ratios: float | None, injected: str = ASKED) -> tuple[str, ...]:
    spec = _spec()
    verdicts = {spec: replace(build.verdict(), spec=spec, notes=("before",))}
    found = with_injections(verdicts, {spec: _measured(*ratios, injected=injected)})
    first, *notes = found[spec].notes
    assert first == "before"
    return tuple(notes)


def test_a_ratio_is_the_median_over_the_launches_that_have_one() -> None:
    assert injected_ratio(_measured(1.03, None, 1.25, 1.05).runs) == 1.05
    assert injected_ratio(_measured(None).runs) is None
    assert injected_ratio(()) is None


def test_the_note_of_a_case_has_what_was_measured_in_percent_and_seconds() -> None:
    assert _note(1.25) == (f"injected {ASKED}: measured +25.0 % (200 us)",)


def test_the_note_of_several_launches_has_their_range() -> None:
    assert _note(1.079, 1.085, 1.091) == (
        f"injected {ASKED}: measured +8.5 % (78.3 us), +7.9 to +9.1 % over 3 launches",
    )


def test_what_was_measured_to_be_no_slowdown_is_said_as_it_is() -> None:
    assert _note(0.98) == (f"injected {ASKED}: measured -2.0 %",)


@pytest.mark.parametrize("injected", ["", ASKED])
def test_where_nothing_was_measured_of_it_there_is_no_note(injected: str) -> None:
    assert _note(None, injected=injected) == ()
    assert injection_notes({_spec(): _measured(None, injected=injected)}) == ()


def test_a_session_says_what_it_was_at_each_payload() -> None:
    found = {_spec(1): _measured(1.031), _spec(4): _measured(None), _spec(16): _measured(1.085)}
    said = f"injected {ASKED}: measured +3.1 % at 1M, +8.5 % at 16M"
    assert injection_notes(found) == (said,)


def test_cases_of_the_same_payload_are_named_in_full() -> None:
    other = replace(_spec(), framework="fake")
    found = {_spec(): _measured(1.031), other: _measured(1.085)}
    (said,) = injection_notes(found)
    assert said.endswith(f"measured +3.1 % in {_spec().id}, +8.5 % in {other.id}")


def test_of_many_cases_a_session_has_the_range() -> None:
    found = {_spec(size): _measured(1 + size / 100) for size in range(1, 10)}
    assert injection_notes(found) == (f"injected {ASKED}: measured +1.0 to +9.0 % in 9 cases",)
