"""Versions in order, and the sentence for one that is too old."""

from __future__ import annotations

import pytest

from busbw.model.words import FailureKind
from busbw.worker.backends import framework
from busbw.worker.backends.base import MeasuringError


@pytest.mark.parametrize(
    ("found", "other"),
    [("0.4.9", "0.4.30"), ("0.4.30", "0.5.0"), ("2.9.3", "2.13"), ("2.12.1", "2.13"), ("1", "2.0")],
)
def test_versions_are_compared_number_by_number(found: str, other: str) -> None:
    assert framework.is_before(found, other)
    assert not framework.is_before(other, found)


@pytest.mark.parametrize("found", ["2.13", "2.13.0", "2.13.0rc1", "2.13.dev20230501+cpu", "2.14.1"])
def test_what_precedes_a_release_counts_as_the_release(found: str) -> None:
    framework.check_version("tensorflow", found, "2.13")


def test_one_that_is_too_old_is_named_with_the_oldest_accepted() -> None:
    with pytest.raises(MeasuringError) as refused:
        framework.check_version("tensorflow", "2.12.1", "2.13")
    assert refused.value.kind is FailureKind.UNAVAILABLE
    said = "tensorflow 2.12.1 is too old: the oldest that busbw measures is 2.13"
    assert str(refused.value) == said
