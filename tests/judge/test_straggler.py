"""Which process or rank the others wait for: always the same one, and far behind, or none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from busbw.judge.validity import straggler_of
from busbw.model.launch import Run
from tests import build

OF_CPU = build.key(ranks=4, processes=4, cores=2)
OF_GPU = build.key(device_kind="NVIDIA H100", ranks=4, processes=2, cores=None)


def _run(own_s: Sequence[float] = (), ranks_s: Sequence[float] = ()) -> Run:
    return build.run(1e-3, process_own_s=tuple(own_s), rank_times_s=tuple(ranks_s))


def test_a_process_that_is_behind_in_every_launch_is_named_with_its_host() -> None:
    runs = [_run((1.0, 1.1, 2.0, 0.9)), _run((1.0, 1.2, 3.0, 1.0))]
    found = straggler_of(runs, OF_CPU, ("a", "a", "b", "b"))
    assert found is not None
    assert (found.process, found.host, found.rank) == (2, "b", None)
    assert found.ratio == 2.5
    assert found.text == (
        "straggler: process 2 (b) takes 2.5 x as long as the others for its own work"
    )


@pytest.mark.parametrize(
    "by_launch",
    [
        ((1.0, 1.1, 1.4, 0.9), (1.0, 1.2, 3.0, 1.0)),
        ((1.0, 1.0, 2.0, 1.0), (2.0, 1.0, 1.0, 1.0)),
        ((1.0, 1.0, 2.0, 1.0), ()),
        ((0.0, 0.0, 0.0, 0.0),),
    ],
    ids=["not far behind in one", "another one each time", "unknown in one", "nothing of its own"],
)
def test_what_is_not_the_same_in_all_launches_is_no_straggler(
    by_launch: Sequence[Sequence[float]],
) -> None:
    assert straggler_of([_run(one) for one in by_launch], OF_CPU) is None


def test_the_rank_that_is_shortest_in_the_collective_comes_last() -> None:
    runs = [_run((1.0, 1.0), (4.0, 4.2, 3.8, 2.0))] * 2
    found = straggler_of(runs, OF_GPU, ("a", "b"))
    assert found is not None
    assert (found.process, found.host, found.rank, found.ratio) == (1, "b", 3, 2.0)
    assert found.text == (
        "straggler: rank 3 of process 1 (b) comes last: the others are 2.0 x as long in the "
        "collective"
    )


def test_virtual_ranks_share_processors_and_say_nothing() -> None:
    assert straggler_of([_run((1.0,) * 4, (4.0, 4.0, 4.0, 1.0))] * 2, OF_CPU) is None


def test_a_single_launch_names_nobody() -> None:
    assert straggler_of([_run((1.0, 9.0, 1.0, 1.0))], OF_CPU) is None


def test_one_process_waits_for_no_other() -> None:
    assert straggler_of([_run((1.0,), (4.0, 1.0))] * 2, build.key(ranks=2)) is None
    assert straggler_of([], OF_CPU) is None
