"""Paths in fewer bytes: what was drawn is where it was, and nothing else is touched."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

import pytest

from busbw.report.pictures import shortened

CIRCLE = "M3,0A3,3,0,1,1,-3,0A3,3,0,1,1,3,0"
CROSS = "M-2,-2L2,2M2,-2L-2,2"


def _path(d: str, x: float, y: float, **attributes: str) -> Tree.Element:
    return Tree.Element("path", {"d": d, "transform": f"translate({x},{y})", **attributes})


def _ends(d: str) -> list[tuple[str, float, float]]:
    """The steps of a path of relative moves, each with where it leads."""
    found, x, y = [], 0.0, 0.0
    for name, numbers in re.findall(r"([Mmlhv])([^Mmlhv]*)", d):
        values = [float(one) for one in numbers.split(",")]
        x += 0.0 if name == "v" else values[0]
        y += values[-1] if name in "Mmlv" else 0.0
        found.append((name.upper() if name in "Mm" else "L", round(x, 2), round(y, 2)))
    return found


def test_dots_of_one_colour_are_one_path_with_round_ends() -> None:
    places = [(10.0, 20.5), (11.25, 19.0), (300.0, 19.0)]
    (one,) = shortened(
        _path(CIRCLE, x, y, fill="#123456", **{"class": "fill-a"}) for x, y in places
    )
    assert one.attrib == {
        "d": one.get("d"),
        "stroke": "#123456",
        "class": "stroke-a",
        "stroke-width": "6",
        "stroke-linecap": "round",
    }
    assert [(x, y) for name, x, y in _ends(one.attrib["d"]) if name == "M"] == places
    assert one.attrib["d"].count("h0") == 3


def test_crosses_become_one_path_where_they_were() -> None:
    (one,) = shortened([_path(CROSS, 10, 10, stroke="#1"), _path(CROSS, 50, 10, stroke="#1")])
    assert _ends(one.attrib["d"]) == [
        *(("M", 8, 8), ("L", 12, 12), ("M", 12, 8), ("L", 8, 12)),
        *(("M", 48, 8), ("L", 52, 12), ("M", 52, 8), ("L", 48, 12)),
    ]
    assert one.get("transform") is None and one.get("stroke") == "#1"


def test_errors_of_rounding_do_not_add_up() -> None:
    steps = "".join(f"{'ML'[at % 2]}{at / 3:.4f},{at / 7:.4f}" for at in range(1000))
    (one,) = shortened([_path(steps, 0, 0)])
    ends = _ends(one.attrib["d"])
    assert max(abs(x - at / 3) for at, (_, x, _) in enumerate(ends)) < 0.011
    assert max(abs(y - at / 7) for at, (_, _, y) in enumerate(ends)) < 0.011
    assert len(one.attrib["d"]) < 0.8 * len(steps)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_path(CIRCLE, 1, 1, fill="a"), _path(CIRCLE, 2, 1, fill="b")),
        (_path(CIRCLE, 1, 1, fill="a", stroke="b"), _path(CIRCLE, 2, 1, fill="a", stroke="b")),
        (_path(CIRCLE, 1, 1), _path(CIRCLE.replace("3", "4"), 2, 1)),
        (_path("M0,0L1,1Z", 1, 1), _path("M0,0L1,1Z", 2, 1)),
        (Tree.Element("g", {"transform": "translate(1,1)"}), Tree.Element("g")),
        (_path(CROSS, 1, 1), Tree.Element("path", {"d": CROSS})),
    ],
)
def test_what_differs_or_is_no_line_and_no_dot_stays_apart(
    one: Tree.Element, other: Tree.Element
) -> None:
    assert len(list(shortened([one, other]))) == 2


def test_others_between_keep_their_place() -> None:
    text = Tree.Element("text")
    found = list(shortened([_path(CIRCLE, 1, 1), _path(CIRCLE, 2, 1), text, _path(CIRCLE, 3, 1)]))
    assert [one.tag for one in found] == ["path", "text", "path"]
    assert found[2].get("d") == CIRCLE
