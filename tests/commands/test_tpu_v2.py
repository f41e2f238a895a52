"""`python -m busbw tpu-v2` with the fake compiler: the page, and every end with its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .asked import Answer, asked_here, command

# Each is a command that starts a compiler.
pytestmark = pytest.mark.slow

PUBLISHED_OOM = [
    {"topology": "v2:8x8", "payload_bytes": 1024 << 20, "rows": 16384},
    {"topology": "v2:16x16", "payload_bytes": 256 << 20, "rows": 65536},
]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("BUSBW_FAKE_COMPILER", raising=False)
    return monkeypatch


def script(to: pytest.MonkeyPatch, *cases: dict[str, object], **fields: object) -> None:
    to.setenv("BUSBW_FAKE_COMPILER", json.dumps({"cases": cases, **fields}))


EARLIER = "# A page\n\n<!-- Written by `python -m busbw tpu-v2`, not by hand. -->\n"


def page(*options: str | Path) -> Answer:
    return command("tpu-v2", "--framework=fake", "--compile-cache=none", *options)


def words(said: Answer) -> str:
    """Of the page, wherever a line ends."""
    return " ".join(said.out.split())


def test_the_page_sets_published_figures_beside_what_is_compiled(
    scripted: pytest.MonkeyPatch,
) -> None:
    said = page()
    assert (said.code, said.err) == (0, "")
    assert "Compiled by fake 1 (build of fake 1)." in said.out
    assert ["512M", "49.97", "46.54", "FakeRing", "-", "2", "1", "512.0 MiB"] in said.table
    assert ["1K", "-", "-", "FakeRing", "-", "2", "1", "1.0 KiB"] in said.table
    assert "### v2-512: `v2:16x16`, 512 cores, the ends of its axes joined" in said.out
    assert "### v2-128: `v2:8x8`, 128 cores, the ends of its axes not joined" in said.out


@pytest.mark.exhaustive
def test_where_the_step_is_out_of_memory_as_published_it_agrees(
    scripted: pytest.MonkeyPatch,
) -> None:
    script(scripted, *({**one, "batch": "drawn", "then": "out_of_memory"} for one in PUBLISHED_OOM))
    out = words(page())
    assert (
        "as the source does it (see Doubts): **agrees at all**, OOM at v2-128 1024M (needs" in out
    )
    assert "shared out over the cores: agrees at 68, **differs at v2-128 1024M (fits in" in out
    assert "OOM 16.00 GiB; published OOM |" in out


@pytest.mark.exhaustive
def test_a_published_figure_that_is_refused_now_is_a_difference(
    scripted: pytest.MonkeyPatch,
) -> None:
    script(
        scripted,
        {"topology": "v2:4x4", "payload_bytes": 64 << 20, "rows": 128, "then": "out_of_memory"},
    )
    out = words(page())
    assert "v2-32 64M (needs 16.00 GiB of 15.75 GiB; published: 47.79 GB/s)" in out
    assert "OOM 16.00 GiB; published 47.79 GB/s |" in out


@pytest.mark.exhaustive
def test_layers_and_rows_are_those_of_the_source(scripted: pytest.MonkeyPatch) -> None:
    table = page().table
    layers = {row[0]: row[1] for row in table if " x " in row[1]}
    assert len(layers) == 20
    assert layers["2K"] == "1 x 512"
    assert (layers["256K"], layers["512K"]) == ("128 x 512", "128 x 1024")
    assert layers["1024M"] == "262144 x 1024"
    heads = [row[2:] for row in table if row[:2] == ["payload", "layer"]]
    whole = ["v2-8, 1024 rows", "v2-32, 4096 rows", "v2-128, 16384 rows", "v2-512, 65536 rows"]
    shared = [f"{name}, 128 rows" for name in ("v2-8", "v2-32", "v2-128", "v2-512")]
    assert heads == [shared, whole, whole]


def test_the_document_is_the_page_and_programs_are_kept(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document, cache = tmp_path / "page.md", tmp_path / "cache"
    said = page(f"--document={document}", f"--compile-cache={cache}")
    assert (said.code, said.out) == (0, "")
    assert document.read_text().startswith("# TPU v2: the published table")
    assert len(list(cache.rglob("*.json.gz"))) == 4 * (21 + 3 * 20)


def test_the_picture_that_the_page_shows_is_written_next_to_it(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    document = tmp_path / "my page (1).md"
    assert page(f"--document={document}").code == 0
    assert "](my%20page%20%281%29.svg)" in document.read_text()
    assert "OUT_OF_MEMORY" in (tmp_path / "my page (1).svg").read_text()


def test_without_a_file_or_what_draws_it_the_page_shows_no_picture(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "![" not in page().out
    scripted.setitem(sys.modules, "vl_convert", None)
    document = tmp_path / "page.md"
    asked = ("tpu-v2", "--framework=fake", "--compile-cache=none")
    said = asked_here(*asked, f"--document={document}")
    assert said.code == 0 and said.err.startswith("busbw tpu-v2: the page has no picture: ")
    assert "![" not in document.read_text() and not document.with_suffix(".svg").exists()


def test_somebody_s_picture_next_to_the_page_is_not_written_over(tmp_path: Path) -> None:
    picture = tmp_path / "page.svg"
    picture.write_text("<svg>mine</svg>")
    said = page(f"--document={tmp_path / 'page.md'}")
    assert said.code == 2 and "page.svg holds something else than a picture" in said.err
    assert picture.read_text() == "<svg>mine</svg>"


@pytest.mark.exhaustive
def test_without_a_compiler_for_tpus_there_is_no_page(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(scripted, missing={"tpu": "libtpu is not installed"})
    document = tmp_path / "page.md"
    said = page(f"--document={document}")
    assert (said.code, said.errors) == (1, ["busbw tpu-v2: libtpu is not installed"])
    assert not document.exists()


@pytest.mark.exhaustive
def test_a_step_without_its_all_reduce_leaves_the_page_as_it_was(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(scripted, {"topology": "v2:2x2", "rows": 1024, "then": "lose_collective"})
    document = tmp_path / "page.md"
    document.write_text(EARLIER)
    said = page(f"--document={document}")
    assert said.code == 1
    assert len(said.errors) == 2 * 20
    assert "fake.step.drawn.1024.float32.1024M for v2:2x2: NOT_A_COLLECTIVE" in said.err
    assert document.read_text() == EARLIER


@pytest.mark.exhaustive
def test_without_published_figures_there_is_nothing_to_compare(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = page(f"--baselines={tmp_path}")
    assert said.code == 1
    assert "--baselines: there are no published figures for TPU v2 in" in said.err


def test_a_document_that_cannot_be_written_is_said(
    scripted: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = page(f"--document={tmp_path / 'nowhere' / 'page.md'}")
    assert said.code == 2
    assert said.err.startswith("busbw tpu-v2: --document: ")


def test_an_unknown_framework_is_a_usage_error() -> None:
    said = command("tpu-v2", "--framework=tensorflow")
    assert said.code == 2
    assert "argument --framework: 'tensorflow'; accepted are " in said.err
