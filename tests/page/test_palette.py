"""The colours of pictures: everybody can tell them apart, in both themes."""

from __future__ import annotations

import itertools

import pytest

from busbw.page.palette import DARK, LIGHT, Theme

each_theme = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])

# Vienot, Brettel and Mollon 1999: linear RGB as seen without the red or without the green cones.
NO_RED = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
NO_GREEN = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))


def _linear(colour: str) -> list[float]:
    parts = [one / 255 for one in bytes.fromhex(colour[1:])]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def _contrast(one: str, other: str) -> float:
    weights = (0.2126, 0.7152, 0.0722)
    lights = sorted(
        sum(w * c for w, c in zip(weights, _linear(colour))) + 0.05 for colour in (one, other)
    )
    return lights[1] / lights[0]


def _seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> list[float]:
    linear = _linear(colour)
    seen = [sum(m * c for m, c in zip(row, linear)) for row in matrix]
    return [max(one, 0.0) ** (1 / 2.4) for one in seen]


@each_theme
def test_no_two_roles_share_a_colour(theme: Theme) -> None:
    assert len(set(theme.roles.values())) == len(theme.roles)
    assert tuple(theme.roles) == tuple(LIGHT.roles)


@each_theme
def test_text_and_lines_stand_out_from_the_background(theme: Theme) -> None:
    assert _contrast(theme.text, theme.background) > 7
    assert _contrast(theme.muted, theme.background) > 4.5
    assert all(_contrast(one, theme.background) > 2.9 for one in theme.series)


@each_theme
@pytest.mark.parametrize("matrix", [NO_RED, NO_GREEN], ids=["no red", "no green"])
def test_series_differ_without_red_and_without_green(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    seen = [_seen(one, matrix) for one in theme.series]
    for one, other in itertools.combinations(seen, 2):
        assert sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5 > 0.12


def _distance(one: list[float], other: list[float]) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(one, other)) ** 0.5)


_AS_IS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@each_theme
@pytest.mark.parametrize("matrix", [_AS_IS, NO_RED, NO_GREEN], ids=["all", "no red", "no green"])
def test_bins_of_a_heat_map_differ_from_their_neighbours_and_from_the_other_side(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    scale = [*reversed(theme.faster), theme.same, *theme.slower]
    seen = [_seen(one, matrix) for one in scale]
    assert min(itertools.starmap(_distance, itertools.pairwise(seen))) > 0.1
    sides = itertools.product(theme.faster, theme.slower)
    assert min(_distance(_seen(a, matrix), _seen(b, matrix)) for a, b in sides) > 0.1


@each_theme
def test_bins_stand_out_the_more_the_farther_they_are_from_the_middle(theme: Theme) -> None:
    for side in (theme.slower, theme.faster):
        contrasts = [_contrast(one, theme.same) for one in side]
        assert contrasts == sorted(contrasts) and contrasts[0] > 1.3
    assert _contrast(theme.failed, theme.background) > 3
