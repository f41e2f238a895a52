"""The TPU v2 page from synthetic cells: what it says of each kind of agreement and difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from busbw.model.launch import Compiled, Failure, LaunchId
from busbw.model.machine import Compiler
from busbw.model.verdict import Reference
from busbw.model.words import FailureKind
from busbw.studies.tpu_v2 import Cell, Way, tpu_v2_page

GIB = 2**30
RING = {"strategy": "Ring", "colors": "2", "phases": "1"}
FITS = Compiled(
    collectives={"all-reduce": 1},
    groups="1x128",
    algorithm=RING,
    argument_bytes=GIB // 2,
    temporary_bytes=4 * GIB + GIB // 2,
    peak_bytes=5 * GIB,
)
OOM = Failure(
    kind=FailureKind.OUT_OF_MEMORY,
    message="no",
    launch=LaunchId.parse("1"),
    needed_bytes=9 * GIB,
    available_bytes=int(7.48 * GIB),
)
COMPILER = Compiler(
    topology="v2:2x2",
    release="libtpu 1.2",
    build="TFRT TPU v2\nBuilt on Jun 17 2026 11:08:48 (1) cl/1",
    versions={"jax": "0.1", "jax-plugin": "7", "python": "3.11"},
)


def published(gb_per_s: float | None, doubt: str = "") -> Reference:
    return Reference(source="v2-128", oom=gb_per_s is None, algbw_gb_per_s=gb_per_s, doubt=doubt)


def cell(
    payload_bytes: int,
    there: Reference | None,
    all_reduce: Compiled | Failure = FITS,
    found: Mapping[Way, Compiled | Failure] | None = None,
) -> Cell:
    """A cell whose steps all fit, but for those in `found`."""
    return Cell(
        slice="v2-128",
        payload_bytes=payload_bytes,
        published=there,
        all_reduce=all_reduce,
        steps={way: (found or {}).get(way, FITS) for way in Way},
    )


HALF = cell(GIB // 2, published(45.25), found={Way.GIVEN: OOM})
WHOLE = cell(GIB, published(None), found={Way.DRAWN: OOM, Way.GIVEN: OOM})


def page(*cells: Cell) -> str:
    """Its words, wherever a line ends."""
    return " ".join(" ".join(tpu_v2_page(COMPILER, cells)).split())


def test_the_compiler_is_named_with_its_build_and_no_other_date() -> None:
    assert "Compiled by libtpu 1.2 (built on Jun 17 2026), jax 0.1. -" in page(HALF)


def test_each_way_says_whether_it_agrees() -> None:
    text = page(HALF, WHOLE)
    assert "OOM is published at v2-128 1024M, of 2 cells that" in text
    assert "agrees at 1, **differs at v2-128 1024M (fits in 5.00 GiB; published: OOM)**" in text
    needs = "needs 9.00 GiB of 7.48 GiB; published: "
    assert f"**agrees at all**: v2-128 1024M ({needs}OOM)." in text
    assert f"agrees at 1, **differs at v2-128 512M ({needs}45.25 GB/s)**" in text


def test_the_published_table_has_both_units_its_oom_cells_and_doubts() -> None:
    small = replace(cell(1024, published(0.02, "too small for float32")), steps={})
    text = page(small, HALF, WHOLE, cell(2 * GIB, None))
    assert "| 1K | 0.02 (0.01863) (?) |" in text and "(?) v2-128 1K: too small for" in text
    assert "| 512M | 45.25 (42.14) | | 1024M | OOM | | 2048M | - |" in text
    # What the source left empty, or what has no layer, is neither agreement nor difference.
    assert "of 2 cells that" in text


def test_the_largest_payload_that_compiles_is_told_and_the_next_one() -> None:
    text = page(HALF, WHOLE)
    assert "| shared out | 1024M in 5.00 GiB |" in text
    assert "512M in 5.00 GiB; 1024M needs 9.00 GiB of 7.48 GiB |" in text
    assert "none; 512M needs 9.00 GiB of 7.48 GiB |" in text


def test_runs_of_one_algorithm_are_told_once() -> None:
    silent = replace(FITS, algorithm={})
    few = (cell(4096, published(1.0), silent), cell(8192, published(1.0)), cell(16384, None, OOM))
    text = page(*few)
    runs = "4K not said by the compiler; 8K Ring, colors 2, phases 1; 16K out of memory."
    assert f"Algorithm on v2-128: {runs}" in text


def test_a_published_time_that_falls_is_told_with_what_the_algorithm_does_there() -> None:
    steady, fallen = cell(8192, published(1.0)), cell(16384, published(2.5))
    falls = "falls by 20 % from v2-128 8K to v2-128 16K, where the compiled algorithm"
    assert f"{falls} does not change: this is unexplained." in page(steady, fallen)
    changed = cell(16384, published(2.5), replace(FITS, algorithm={"strategy": "Tree"}))
    assert f"{falls} changes too." in page(steady, changed)
    assert "falls" not in page(steady, cell(16384, published(2.1)))
