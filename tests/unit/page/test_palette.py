"""The colours of pictures: everybody can tell them apart, in both themes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pytest

from busbw.page.palette import DARK, LIGHT, Theme, several

# Vienot, Brettel and Mollon 1999: linear RGB as seen without the red or without the green cones.
NO_RED = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
NO_GREEN = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))
AS_IT_IS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
Matrix = Sequence[Sequence[float]]

each_theme = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
each_eye = pytest.mark.parametrize(
    "eye", [AS_IT_IS, NO_RED, NO_GREEN], ids=["all", "no red", "no green"]
)


def _rgb(colour: str) -> list[float]:
    return [one / 255 for one in bytes.fromhex(colour[1:])]


def _linear(parts: Iterable[float]) -> list[float]:
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def luminance(rgb: Iterable[float]) -> float:
    """As WCAG defines it, like the contrast; of parts from 0 to 1."""
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), _linear(rgb)))


def contrast(*colours: Iterable[float]) -> float:
    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


def _distance(eye: Matrix, *colours: str) -> float:
    """How far two colours are from each other as that eye sees them."""
    seen = ([sum(m * c for m, c in zip(row, _linear(_rgb(one)))) for row in eye] for one in colours)
    one, other = ([max(part, 0.0) ** (1 / 2.4) for part in parts] for parts in seen)
    return float(sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5)


@each_theme
def test_no_two_roles_share_a_colour(theme: Theme) -> None:
    assert len(set(theme.values())) == len(theme)
    assert tuple(theme) == tuple(LIGHT)


@each_theme
def test_text_and_lines_stand_out_from_the_background(theme: Theme) -> None:
    least = {"text": 7.0, "muted": 4.5, "failed": 3.0}
    least |= {f"series-{n}": 2.9 for n in range(1, 1 + len(several(theme, "series")))}
    found = {role: contrast(_rgb(theme[role]), _rgb(theme["background"])) for role in least}
    assert not {role: of for role, of in found.items() if of <= least[role]}


@each_theme
@each_eye
def test_series_and_bins_differ_whatever_the_eye(theme: Theme, eye: Matrix) -> None:
    slower, faster = several(theme, "slower"), several(theme, "faster")
    scale = [*reversed(faster), theme["same"], *slower]
    series = itertools.combinations(several(theme, "series"), 2)
    assert min(_distance(eye, *pair) for pair in series) > 0.12
    assert min(_distance(eye, *pair) for pair in itertools.pairwise(scale)) > 0.1
    assert min(_distance(eye, *pair) for pair in itertools.product(faster, slower)) > 0.1


@each_theme
def test_bins_stand_out_the_more_the_farther_they_are_from_the_middle(theme: Theme) -> None:
    for side in (several(theme, "slower"), several(theme, "faster")):
        contrasts = [contrast(_rgb(one), _rgb(theme["same"])) for one in side]
        assert contrasts == sorted(contrasts) and contrasts[0] > 1.3
