"""The table of the step's pieces from synthetic times: ratios by turn, of all processes alike."""

from __future__ import annotations

from collections.abc import Sequence

from bench import step

BARE = [1e-4, 2e-4, 4e-4]


def process(**factors: Sequence[float]) -> dict[str, Sequence[float]]:
    """Three turns, in which a variant takes a multiple of the bare chain's time."""
    every = {name: (1.0,) * 3 for name in step.NAMES} | factors
    ratios = {name: [one * bare for one, bare in zip(ones, BARE)] for name, ones in every.items()}
    return {"bare": BARE, **ratios}


def rows(*processes: dict[str, Sequence[float]]) -> list[list[str]]:
    lines = step.table([{"1M": one, "4M": one} for one in processes])
    return [line.strip("| ").split(" | ") for line in lines]


def test_a_row_has_medians_with_the_least_and_the_most_and_ratios_of_the_same_turn() -> None:
    title, _, first, second = rows(process(fresh=(1.0, 2.0, 1.5), step=(3.0,) * 3))
    assert title[:3] == ["payload", "bare, us", "freshly written"]
    assert first[:3] == ["1M", "200 (100 to 400)", "1.50 (1.00 to 2.00)"]
    assert first[-1] == "3.00 (3.00 to 3.00)"
    assert second == ["4M", *first[1:]]
    assert len(title) == len(first)


def test_the_turns_of_all_processes_count_alike() -> None:
    _, _, first, _ = rows(process(step=(1.0, 2.0, 3.0)), process(step=(7.0, 8.0, 9.0)))
    assert first[-1] == "5.00 (1.00 to 9.00)"
