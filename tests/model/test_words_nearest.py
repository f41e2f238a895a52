"""The sentence on a word that is not one of a closed set: the nearest, and no more than fits."""

from __future__ import annotations

import pytest

from busbw.model.words import listed, nearest, refusal

MANY = tuple(f"strategy_{number}" for number in range(20))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rign", "ring"),
        ("RING", "ring"),
        ("ring ", "ring"),
        ("two", ""),
        ("", ""),
        ("to_one", "to_one_device"),
        ("hub", "star"),
        ("hubs", "star"),
    ],
)
def test_the_nearest_is_found_whatever_the_case_and_by_other_names(text: str, found: str) -> None:
    assert nearest(text, ("ring", "star", "to_one_device"), {"hub": "star"}) == found


def test_a_refusal_names_what_was_said_what_was_meant_and_what_there_is() -> None:
    assert (
        refusal("rign", ("ring", "star")) == "'rign'; did you mean 'ring'? accepted are ring, star"
    )
    assert refusal("two", ("ring", "star")) == "'two'; accepted are ring, star"


def test_of_many_words_those_are_shown_that_fit_the_nearest_first() -> None:
    said = refusal("strategy-17", MANY)
    assert said.startswith("'strategy-17'; did you mean 'strategy_17'? accepted are strategy_17, ")
    assert said.endswith(" others, which --help lists")
    assert len(said) < 200
    assert listed(MANY, where="the page").endswith("strategy_3 and 16 others, which the page lists")


def test_what_is_long_is_cut() -> None:
    assert len(refusal("x" * 10_000, MANY)) < 200
