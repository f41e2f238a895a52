"""The TPU v2 page from synthetic cells: what it says of each kind of agreement and difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from busbw import hardware
from busbw.model import Compiled, Compiler, Failure, FailureKind, LaunchId, Reference
from busbw.studies.tpu_v2.cells import TpuV2Cell, TpuV2Slice, Way
from busbw.studies.tpu_v2.page import tpu_v2_page
from busbw.workloads import Batch, Layer

GIB = 2**30
PART = TpuV2Slice(name="v2-128", topology=hardware.topology_of("v2:8x8"), batch=16384)
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
    versions={"jax": "0.1", "python": "3.11"},
)


def published(gb_per_s: float | None, doubt: str = "") -> Reference:
    return Reference(source="v2-128", oom=gb_per_s is None, algbw_gb_per_s=gb_per_s, doubt=doubt)


def cell(
    payload_bytes: int,
    there: Reference | None,
    all_reduce: Compiled | Failure = FITS,
    found: Mapping[Way, Compiled | Failure] | None = None,
) -> TpuV2Cell:
    """A cell whose steps all fit, but for those in `found`."""
    step = Layer(inputs=payload_bytes // 4096, outputs=1024, rows=16384, ranks=128)
    steps = {
        Way.SHARED: replace(step, rows=128),
        Way.DRAWN: replace(step, batch=Batch.DRAWN),
        Way.GIVEN: step,
    }
    return TpuV2Cell(
        part=PART,
        payload_bytes=payload_bytes,
        published=there,
        all_reduce=all_reduce,
        steps={way: (one, (found or {}).get(way, FITS)) for way, one in steps.items()},
    )


HALF = cell(GIB // 2, published(45.25), found={Way.GIVEN: OOM})
WHOLE = cell(GIB, published(None), found={Way.DRAWN: OOM, Way.GIVEN: OOM})


def page(*cells: TpuV2Cell) -> str:
    """Its words, wherever a line ends."""
    return " ".join(" ".join(tpu_v2_page(cells, COMPILER)).split())


def test_the_compiler_is_named_with_its_build_and_no_other_date() -> None:
    assert "Compiled by libtpu 1.2 (built on Jun 17 2026), jax 0.1. A table" in page(HALF)


def test_each_way_says_whether_it_agrees() -> None:
    text = page(HALF, WHOLE)
    assert "the source has OOM at v2-128 1024M. Of 2 cells that are published" in text
    assert "agrees at 1, **differs at v2-128 1024M (fits in 5.00 GiB; published: OOM)**" in text
    assert "**agrees at all**, OOM at v2-128 1024M (needs 9.00 GiB of 7.48 GiB)." in text
    needs = "needs 9.00 GiB of 7.48 GiB; published: 45.25 GB/s"
    assert f"agrees at 1, **differs at v2-128 512M ({needs})**" in text


def test_rows_that_only_fit_in_half_the_bytes_are_told() -> None:
    text = page(HALF, WHOLE)
    assert "At v2-128 512M the step fits because the compiler keeps the drawn rows in" in text
    assert "4.00 GiB of 4.50 GiB of temporaries; in float32 they would be 8.00 GiB." in text
    assert "At v2-128 1024M the drawn rows are 8.00 GiB in bfloat16, of 9.00 GiB needed" in text
    wide = replace(FITS, temporary_bytes=9 * GIB)
    kept = cell(GIB // 2, published(45.25), found={Way.GIVEN: OOM, Way.DRAWN: wide})
    assert "fits because" not in page(kept, WHOLE)


def test_both_units_stand_beside_each_other() -> None:
    assert "| 512M | 45.25 | 42.14 | Ring |" in page(HALF)


def test_a_doubt_is_marked_and_its_cell_has_no_step() -> None:
    small = replace(cell(1024, published(0.02, "too small for float32")), steps={})
    text = page(small, HALF)
    assert "0.02 (?)" in text
    assert "- (?) at v2-128 1K: too small for float32. No step is compiled there." in text
    assert "Of 1 cell that" in text


def test_a_cell_that_the_source_left_empty_is_neither_agreement_nor_difference() -> None:
    empty = cell(GIB, None, found={Way.SHARED: OOM})
    text = page(HALF, empty)
    assert "Of 1 cell that" in text
    assert "OOM 9.00 GiB; published no figure |" in text


def test_runs_of_one_algorithm_are_told_once_and_where_the_step_has_another() -> None:
    tree = replace(FITS, algorithm={"strategy": "Tree"})
    silent = replace(FITS, algorithm={})
    text = page(
        cell(4096, published(1.0), silent, dict.fromkeys(Way, silent)),
        cell(8192, published(1.0)),
        cell(16384, published(1.0), found={Way.SHARED: tree}),
    )
    assert "4K not said by the compiler; 8K to 16K Ring, colors 2, phases 1." in text
    assert "In 8 of 9 training steps that compile" in text
    assert "another one at v2-128 16K (shared out)." in text
    assert "v2-128 (published: up to 1 GB/s)" in text


def test_a_published_time_that_falls_is_told_with_what_the_algorithm_does_there() -> None:
    steady, fallen = cell(8192, published(1.0)), cell(16384, published(2.5))
    falls = "On v2-128 the published time falls by 20 % from 8K to 16K, where the compiled"
    assert f"{falls} algorithm does not change: this is unexplained." in page(steady, fallen)
    tree = replace(FITS, algorithm={"strategy": "Tree"})
    changed = cell(16384, published(2.5), tree)
    assert f"{falls} algorithm changes too." in page(steady, changed)
    assert "falls" not in page(steady, cell(16384, published(2.1)))


def test_an_all_reduce_alone_that_does_not_fit_is_said() -> None:
    text = page(HALF, cell(GIB, published(None), OOM))
    assert "The all-reduce alone is out of memory at v2-128 1024M." in text


def test_a_page_shows_a_picture_only_where_there_is_one() -> None:
    assert "![" not in page(HALF)
    text = "\n".join(tpu_v2_page([HALF], COMPILER, "a b.svg"))
    assert "memory](a%20b.svg)\n" in text and "figures are in the tables below.*\n\n## In" in text
