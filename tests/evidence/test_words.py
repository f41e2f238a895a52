"""How shares and slowdowns are written."""

from __future__ import annotations

import pytest

from evidence.corpus import Injection
from evidence.words import change, injection_text, percent


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0005, "0.05 %"),
        (0.004, "0.4 %"),
        (0.02, "2 %"),
        (0.088, "8.8 %"),
        (0.123, "12 %"),
        (0.9, "90 %"),
        (0.996, "99.6 %"),
        (1, "100 %"),
    ],
)
def test_a_share_has_decimals_near_the_ends_only(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_ratio_is_written_as_a_change() -> None:
    assert [change(one) for one in (1.0512, 0.997)] == ["+5.1 %", "-0.3 %"]


def test_a_slowdown_is_written_as_it_was_asked_for() -> None:
    injection = Injection(kind="delay", share=0.075)
    assert injection_text(injection) == "+7.5 % (delay)"
    one = Injection(kind="delay", share=1, payload_bytes=1 << 20)
    assert injection_text(one) == "+100 % at 1M (delay)"
