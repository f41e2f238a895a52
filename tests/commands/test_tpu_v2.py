"""`python -m busbw tpu-v2` with the fake compiler: the page, and every end with its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .asked import Answer, command

# Each is a command that starts a compiler.
pytestmark = pytest.mark.slow

PUBLISHED_OOM = [
    {"topology": "v2:8x8", "payload_bytes": 1024 << 20, "rows": 16384},
    {"topology": "v2:16x16", "payload_bytes": 256 << 20, "rows": 65536},
]


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUSBW_FAKE_COMPILER", raising=False)


def script(to: pytest.MonkeyPatch, *cases: dict[str, object], **fields: object) -> None:
    to.setenv("BUSBW_FAKE_COMPILER", json.dumps({"cases": cases, **fields}))


EARLIER = (
    "<!-- Written by `python -m busbw tpu-v2`, not by hand. -->\nA page\n"
    "<!-- End of busbw tpu-v2. -->\n"
)


def page(*options: str | Path) -> Answer:
    return command("tpu-v2", "--framework=fake", "--compile-cache=none", *options)


def words(said: Answer) -> str:
    """Of the page, wherever a line ends."""
    return " ".join(said.out.split())


def test_the_page_sets_published_figures_beside_what_is_compiled() -> None:
    said = page()
    assert (said.code, said.err) == (0, "")
    assert "Compiled by fake 1 (build of fake 1)." in said.out
    assert ["payload", "v2-8", "v2-32", "v2-128", "v2-512"] in said.table
    assert ["1024M", "50.02 (46.59)", "47.84 (44.56)", "OOM", "-"] in said.table
    assert ["256M", "50.14 (46.7)", "47.71 (44.43)", "44.88 (41.8)", "OOM"] in said.table
    assert "Algorithm on v2-8 and v2-32 and v2-128 and v2-512: 1K to 1024M FakeRing" in said.out


@pytest.mark.exhaustive
def test_where_the_step_is_out_of_memory_as_published_it_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(
        monkeypatch, *({**one, "batch": "drawn", "then": "out_of_memory"} for one in PUBLISHED_OOM)
    )
    out = words(page())
    assert "Batch whole, drawn: **agrees at all**: v2-128 1024M (needs" in out
    assert "Batch shared out: agrees at 68, **differs at v2-128 1024M (fits in" in out
    assert "; 256M needs 16.00 GiB of 15.75 GiB |" in out


@pytest.mark.exhaustive
def test_a_published_figure_that_is_refused_now_is_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(
        monkeypatch,
        {"topology": "v2:4x4", "payload_bytes": 64 << 20, "rows": 128, "then": "out_of_memory"},
    )
    assert "v2-32 64M (needs 16.00 GiB of 15.75 GiB; published: 47.79 GB/s)" in words(page())


def test_compiled_programs_are_kept(tmp_path: Path) -> None:
    assert page(f"--compile-cache={tmp_path}").code == 0
    assert len(list(tmp_path.rglob("*.json.gz"))) == 4 * (21 + 3 * 20)


@pytest.mark.exhaustive
def test_without_a_compiler_for_tpus_there_is_no_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(monkeypatch, missing={"tpu": "libtpu is not installed"})
    document = tmp_path / "page.md"
    said = page(f"--document={document}")
    assert (said.code, said.errors) == (1, ["busbw tpu-v2: libtpu is not installed"])
    assert not document.exists()


@pytest.mark.exhaustive
def test_a_step_without_its_all_reduce_leaves_the_page_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(monkeypatch, {"topology": "v2:2x2", "rows": 1024, "then": "lose_collective"})
    document = tmp_path / "page.md"
    document.write_text(EARLIER)
    said = page(f"--document={document}")
    assert said.code == 1
    assert len(said.errors) == 2 * 20
    assert "float32.1024M of " in said.err and "for v2:2x2: NOT_A_COLLECTIVE" in said.err
    assert document.read_text() == EARLIER


@pytest.mark.exhaustive
def test_without_published_figures_there_is_nothing_to_compare(tmp_path: Path) -> None:
    said = page(f"--baselines={tmp_path}")
    assert said.code == 1
    assert "--baselines: there are no published figures for TPU v2 in" in said.err
