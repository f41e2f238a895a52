"""The page of the step's pieces from synthetic times: ratios by turn, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from bench import step
from busbw.model import MIB

BARE = [1e-4, 2e-4, 4e-4]


def _variants(**factors: Sequence[float]) -> Mapping[str, Sequence[float]]:
    """Three turns, in which a variant takes a multiple of the bare chain's time."""
    named = {"fresh": (1.0,) * 3, "touched": (1.5,) * 3, "product": (2.0,) * 3}
    named |= {"busy": (1.0,) * 3, "idle": (0.5,) * 3, "step": (3.0,) * 3}
    found = {
        name: [factor * bare for factor, bare in zip(ones, BARE, strict=True)]
        for name, ones in (named | factors).items()
    }
    return {"bare": BARE, **found}


def _page(variants: Mapping[str, Sequence[float]]) -> list[str]:
    return list(step.page({2: {MIB: variants, 4 * MIB: variants}, 4: {MIB: variants}}, 1, 3))


def test_ratios_are_to_the_bare_chain_of_the_same_turn() -> None:
    variants = _variants(fresh=(1.0, 2.0, 1.5))
    assert step.ratios(variants, "fresh") == pytest.approx([1.0, 2.0, 1.5])


def test_a_row_has_medians_with_the_least_and_the_most() -> None:
    page = _page(_variants(fresh=(1.0, 2.0, 1.5)))
    row = next(line for line in page if line.startswith("| 1M"))
    assert row.split(" | ")[:3] == ["| 1M", "200 (100 to 400)", "1.50 (1.00 to 2.00)"]
    assert row.endswith("| 3.00 (3.00 to 3.00) |")


def test_the_turns_of_all_processes_count_alike() -> None:
    launches: list[Mapping[int, Mapping[str, Sequence[float]]]] = [
        {MIB: {"bare": [1.0, 2.0], "step": [3.0, 4.0]}},
        {MIB: {"bare": [5.0], "step": [6.0]}},
    ]
    assert step.together(launches) == {MIB: {"bare": [1.0, 2.0, 5.0], "step": [3.0, 4.0, 6.0]}}


def test_every_number_of_ranks_has_a_table_with_a_row_for_each_payload() -> None:
    page = _page(_variants())
    assert [line for line in page if line.startswith("## ")] == [
        "## jax, 2 ranks",
        "## jax, 4 ranks",
    ]
    assert len([line for line in page if line.startswith("| 1M")]) == 2
    assert len([line for line in page if line.startswith("| 4M")]) == 1
    cells = {line.count("|") for line in page if line.startswith("|")}
    assert len(cells) == 1


def test_each_variant_s_part_of_the_difference_is_said() -> None:
    said = step.said(_variants())
    assert "the step's all-reduce takes 3.00 times the bare one" in said
    assert "freshly written 0 %, as many bytes as the step between 25 %" in said
    assert "that, written by a product 50 %" in said
    assert said.endswith("a rank late, asleep -25 %")


def test_a_difference_that_a_prediction_may_have_is_not_explained() -> None:
    said = step.said(_variants(step=(1.2, 1.0, 1.3)))
    assert "takes 1.20 times the bare one: within 25 %" in said
    assert "freshly" not in said


def test_no_line_of_words_is_wider_than_the_others() -> None:
    assert max(len(line) for line in _page(_variants()) if not line.startswith("|")) <= 100
