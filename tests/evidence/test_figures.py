"""A change of a rule may not make its rates worse: they are replayed and held to what they were.

`python -m evidence page` writes new ones, which a review then sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evidence import corpus, figures
from evidence.figures import Figures
from evidence.rules import OWN

pytestmark = pytest.mark.exhaustive

KEPT = figures.read()


@pytest.fixture(scope="module")
def now() -> Mapping[str, Figures]:
    """What a replay gives; it takes seconds."""
    return figures.figures(corpus.read())


@pytest.mark.slow
def test_every_rule_of_ours_has_figures(now: Mapping[str, Figures]) -> None:
    assert sorted(KEPT) == sorted(OWN) == sorted(now)


@pytest.mark.slow
@pytest.mark.parametrize("rule", OWN)
def test_no_rate_is_worse_than_it_was(now: Mapping[str, Figures], rule: str) -> None:
    assert now[rule].worse_than(KEPT[rule]) == []


def test_more_false_alarms_and_fewer_slowdowns_seen_are_each_worse() -> None:
    before = Figures(false_alarms=0.01, seen={"delay 0.05": 0.9, "delay 0.1": 1.0})
    after = Figures(false_alarms=0.02, seen={"delay 0.05": 0.8})
    assert after.worse_than(before) == [
        "false alarms 0.010 -> 0.020",
        "seen at delay 0.05 0.900 -> 0.800",
        "seen at delay 0.1 1.000 -> 0.000",
    ]
    assert before.worse_than(before) == []


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    found = {"a rule": Figures(false_alarms=0.01, seen={"delay 0.05": 0.9})}
    figures.write(found, path)
    assert figures.read(path) == found
