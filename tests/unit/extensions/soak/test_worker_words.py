"""The inputs and exact results of a soak, computed in another way than `worker_words` does."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from busbw.collectives import COLLECTIVES
from busbw.extensions.soak.worker_words import Words
from busbw.worker.backends.base import MeasuringError
from tests.helpers import build

DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "int32": np.int32}


def _words(collective: str, dtype: str = "float32", op: str = "", **changes: Any) -> Words:
    found = COLLECTIVES[collective]
    op = op or (found.reduce_ops[0] if found.reduce_ops else "none")
    own = {"collective": collective, "reduce_op": op, "placement": "out_of_place", "dtype": dtype}
    return Words(build.case(**own, **changes), np.dtype(DTYPES[dtype]))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_sum_of_whole_numbers_is_the_same_in_every_order(
    collective: str, dtype: str, ranks: int
) -> None:
    found = _words(collective, dtype, ranks=ranks)
    chance = random.Random(0)
    for number in range(4):
        starts = [found.start(rank, number) for rank in range(ranks)]
        assert all(np.isfinite(one).all() for one in starts)
        wanted = [found.after(rank, number, 1)[0] for rank in range(ranks)]
        for _ in range(10):
            chance.shuffle(starts)
            added = starts[0].copy()
            for start in starts[1:]:
                added += start
            blocks = [added[0]] * ranks if collective == "all_reduce" else added
            assert np.array_equal(np.stack(wanted), blocks)
            assert added.any()


def test_sums_come_from_the_smallest_normal_numbers_to_the_largest() -> None:
    found = _words("all_reduce", ranks=8)
    largest = [float(np.abs(found.after(0, number, 1)).max()) for number in range(4)]
    assert largest[0] < 1e-30
    assert largest[3] > 1e30
    assert largest == sorted(largest)


def test_integers_take_all_their_bits_and_wrap_as_devices_do() -> None:
    found = _words("all_reduce", "int32")
    starts = [found.start(rank, 0)[0].astype(np.int64) for rank in range(4)]
    assert all(abs(int(one.max())) > 2**30 for one in starts)
    wrapped = (sum(starts) + 2**31) % 2**32 - 2**31
    assert np.array_equal(found.after(2, 0, 1)[0], wrapped)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_maximum_is_one_of_the_words_that_were_put_in(dtype: str) -> None:
    found = _words("all_reduce", dtype, "max")
    starts = np.stack([found.start(rank, 1)[0] for rank in range(4)])
    assert np.array_equal(found.after(3, 1, 1)[0], starts.max(axis=0))


def test_moves_take_all_the_bits_of_a_fraction() -> None:
    found = _words("permute", ranks=8)
    mantissas = [np.frexp(found.start(0, number))[0] * 2**24 for number in range(4)]
    words = np.concatenate(mantissas).astype(np.int64).ravel()
    assert all(((words >> bit) & 1).any() for bit in range(23))


def test_each_rank_gets_what_the_collective_brings_it() -> None:
    brought: Mapping[str, Callable[[Any, int], Any]] = {
        "permute": lambda starts, rank: [starts[rank - 1][0]],
        "all_gather": lambda starts, rank: [one[0] for one in starts],
        "all_to_all": lambda starts, rank: [one[rank] for one in starts],
    }
    for name, wanted in brought.items():
        found = _words(name)
        starts = [found.start(rank, 3) for rank in range(4)]
        for rank in range(4):
            got, exact = found.after(rank, 3, 1), np.stack(wanted(starts, rank))
            assert np.array_equal(got.view(np.uint32), exact.view(np.uint32)), name


def test_groups_along_an_axis_have_words_of_their_own() -> None:
    found = _words("all_gather", ranks=4, mesh="2x2", axes="y")
    assert not np.array_equal(found.after(0, 0, 1), found.after(2, 0, 1))
    assert np.array_equal(found.after(0, 0, 1), found.after(1, 0, 1))


def test_a_wrong_word_is_named_with_its_bits_and_how_far_it_goes() -> None:
    found = _words("permute", payload_bytes=65536)
    right = {rank: np.resize(found.after(rank, 0, 1)[0], 16384) for rank in range(4)}
    assert found.find_mismatch(0, 9, right) is None
    right[2][[100, 16000]] *= -1
    mismatch = found.find_mismatch(0, 9, right)
    assert mismatch is not None
    assert (mismatch.rank, mismatch.element) == (2, 100)
    assert (mismatch.bits, mismatch.iteration) == ((31,), 9)


def test_minus_zero_is_another_word_than_zero() -> None:
    found = _words("permute", "float16", payload_bytes=65536)
    number = next(n for n in range(found.draws) if (found.after(0, n, 1) == 0).any())
    got = np.resize(found.after(0, number, 1)[0], 32768)
    got[got == 0] = -0.0
    mismatch = found.find_mismatch(number, 1, {0: got})
    assert mismatch is not None
    assert mismatch.expected ^ mismatch.actual == 2**15


def test_a_sum_over_more_ranks_than_there_are_bits_is_not_soaked() -> None:
    with pytest.raises(MeasuringError, match="float16 holds no exact sum over 4096 ranks"):
        _words("all_reduce", "float16", ranks=4096).most_rounds()
