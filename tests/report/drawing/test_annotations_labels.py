"""Labels: none on another one, each where it hides the fewest points, none outside."""

from __future__ import annotations

import pytest

from busbw.report.drawing.annotations import ABOVE, AROUND, ENDS, UPWARDS, Box, Labels, Place


def _around(x: float, y: float) -> list[tuple[tuple[float, float], Place]]:
    return [((x, y), place) for place in AROUND]


def test_a_label_is_below_its_point_where_nothing_is_in_the_way() -> None:
    assert Labels(400, []).add(_around(100, 100), 60) == 0


def test_a_label_is_where_it_hides_the_fewest_points() -> None:
    below = [(100 + at, 83.0) for at in range(-20, 20, 5)]
    assert Labels(400, below).add(_around(100, 100), 60) == 1
    above = [(100 + at, 115.0) for at in range(-20, 20, 5)]
    assert Labels(400, [*below, *above]).add(_around(100, 100), 60) == 2
    assert Labels(400, [(300, 83)]).add(_around(100, 100), 60) == 0


def test_labels_at_one_point_are_around_it_and_then_left_out() -> None:
    labels = Labels(400, [])
    found = [labels.add(_around(200, 100), 80) for _ in range(20)]
    written = [one for one in found if one >= 0]
    assert found[-1] == -1 and len(set(written)) == len(written) > 3
    boxes = [Box.of((200, 100), 80, AROUND[one]) for one in written]
    assert not any(a.is_near(b) for a in boxes for b in boxes if a is not b)


@pytest.mark.parametrize("x", [0.0, 5.0, 395.0, 400.0])
def test_near_the_ends_a_label_stays_within_the_picture(x: float) -> None:
    index = Labels(400, []).add(_around(x, 100), 100)
    box = Box.of((x, 100), 100, AROUND[index])
    assert index >= 0 and box.left >= -4 and box.right <= 400


def test_a_label_longer_than_the_picture_is_left_out() -> None:
    assert Labels(200, []).add([((100, 10), place) for place in ABOVE], 300) == -1


def test_labels_of_rules_keep_to_their_ends_and_run_upwards() -> None:
    labels = Labels(400, [])
    ends = [((400.0 if one.align == "right" else 0.0, 50.0), one) for one in ENDS]
    assert [labels.add(ends, 300) for _ in range(3)] == [0, 2, -1]
    upright = [((100.0, 200.0), UPWARDS)]
    assert labels.add(upright, 60) == 0
    assert labels.add([((108.0, 200.0), UPWARDS)], 60) == -1
    box = Box.of((100.0, 200.0), 60, UPWARDS)
    assert (box.high - box.low, box.right - box.left) == (60, 12)
