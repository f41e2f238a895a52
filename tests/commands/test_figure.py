"""`python -m busbw figure`: pictures of results and published figures, and every refusal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.history.files import append
from tests import build
from tests.history.lines import KEY, line
from tests.report.written import compiled_text, document, program, verdict

from .asked import Answer, asked_here

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The results of a session."""
    return _written(tmp_path / "night.json", verdict(4096, 6.0), verdict(8192, None))


def _written(path: Path, *verdicts: Any, **changes: Any) -> Path:
    path.write_text(json.dumps(document(*verdicts, **changes)))
    return path


def _drawn(*arguments: str | Path) -> Answer:
    pytest.importorskip("vl_convert")
    answer = asked_here("figure", *arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    return answer


def _refused(answer: Answer, *words: str) -> None:
    assert (answer.code, answer.out) == (2, "")
    for word in words:
        assert word in answer.err


def test_an_svg_shows_the_curve(results: Path, tmp_path: Path) -> None:
    _drawn(results, "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for word in ("All-reduce: bus bandwidth", ">jax psum<", ">OUT_OF_MEMORY<", ">4K<"):
        assert word in text


@pytest.mark.parametrize("name", ["a.png", "b.PNG"])
def test_a_png_has_two_dots_to_a_pixel(results: Path, tmp_path: Path, name: str) -> None:
    _drawn(results, "-o", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 2 * 720


def test_several_results_have_a_curve_each(results: Path, tmp_path: Path) -> None:
    other = _written(tmp_path / "b.json", verdict(4096, 5.0), host="b")
    _drawn(results, other, "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ">jax psum, on b<" in text and ">jax psum, night.json<" not in text


def test_published_figures_are_drawn_without_results(tmp_path: Path) -> None:
    _drawn("--published=tpu-v2", "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert all(f">v2-{n} ({n} ranks)<" in text for n in (8, 32, 128, 512))


def _texts(path: Path) -> list[str]:
    """What a picture says, its description with the figures included; not where it says it."""
    elements = Tree.parse(path).getroot().iter()
    kinds = ("title", "desc", "style", "text", "tspan")
    return [one.text or "" for one in elements if one.tag.rpartition("}")[2] in kinds]


def test_the_picture_in_docs_is_what_the_command_writes(tmp_path: Path) -> None:
    _drawn("--published=tpu-v2", "-o", tmp_path / "a.svg")
    assert _texts(tmp_path / "a.svg") == _texts(ROOT / "docs" / "tpu-v2.svg")
    assert any(
        "104.3 GB/s at 128M" in one and "OUT_OF_MEMORY at 256M" in one
        for one in _texts(tmp_path / "a.svg")
    )


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_of_ours_is_replaced_and_nothing_else(
    results: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    _drawn(results, "-o", path)
    _drawn("--published=tpu-v2", "-o", path)
    path.write_text("<svg>mine</svg>")
    _refused(asked_here("figure", results, "-o", path), "--output", "something else than a picture")
    assert path.read_text() == "<svg>mine</svg>"


def test_what_is_read_is_not_written_over(results: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.svg"
    link.symlink_to(results)
    before = results.read_bytes()
    _refused(asked_here("figure", results, "-o", link), "--output", "is read, too")
    assert results.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "a.svg"], ["accepted are files of --results, --published=DEVICE or --history=DIR"]),
        (["x.json", "--published=tpu-v2", "-o", "a.svg"], ["accepted are files of --results"]),
        (["x.json", "-o", "a.pdf"], ["--output", ".svg", ".png"]),
        (["x.json", "-o", "a"], ["--output", ".svg"]),
        (["x.json"], ["-o"]),
        (["x.json", "-o", "a.svg", "--width=400"], ["unrecognized arguments: --width=400"]),
        (["x.json", "-o", "a.svg", "--theme=dark"], ["unrecognized arguments: --theme=dark"]),
        (["--published=tpu-v9", "-o", "a.svg"], ["--published", "tpu-v9", "tpu-v2"]),
        (["--published=tpu-v2", "--baselines=/dev", "-o", "a.svg"], ["no published figures"]),
        (["none.json", "-o", "a.svg"], ["none.json: No such file"]),
        (["x.json", "-o", "no/such/a.svg"], ["--output", "there is no folder"]),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(
    options: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _written(tmp_path / "x.json", verdict(4096, 6.0))
    _refused(asked_here("figure", *options), *words)
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_a_bad_document_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    _refused(asked_here("figure", path, "-o", tmp_path / "a.svg"), f"{path}: ")
    _written(path, verdict(4096, None))
    answer = asked_here("figure", path, "-o", tmp_path / "a.svg")
    _refused(answer, f"{path}: no bandwidth of a collective by itself")


def test_without_vl_convert_it_says_what_to_install(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    answer = asked_here("figure", results, "-o", tmp_path / "a.svg")
    assert (answer.code, answer.out) == (1, "")
    assert "pip install 'busbw[page]'" in answer.err
    assert not (tmp_path / "a.svg").exists()


def test_a_disk_that_is_full_leaves_the_earlier_picture_whole(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.svg"
    _drawn(results, "-o", path)
    before = path.read_bytes()

    def full(path: Path, content: str | bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("busbw.files.write", full)
    answer = asked_here("figure", results, "-o", path)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"busbw figure: --output: {path}: No space left on device\n"
    assert path.read_bytes() == before


def test_what_was_compiled_has_its_memory_drawn(tmp_path: Path) -> None:
    path = tmp_path / "compiled.json"
    path.write_text(compiled_text(program(4096, 8192), program(8192, None)))
    _drawn(path, "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "Memory of compiled programs" in text and ">OUT_OF_MEMORY<" in text


def test_what_was_compiled_stands_alone_and_needs_a_program(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "compiled.json"
    path.write_text(compiled_text(program(4096, None)))
    _refused(asked_here("figure", path, "-o", tmp_path / "a.svg"), "no program was compiled")
    _refused(
        asked_here("figure", path, results, "-o", tmp_path / "a.svg"), "has a picture of its own"
    )


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """A history of three nights of two machines."""
    root = tmp_path / "history"
    for key in (KEY, build.key()):
        for night in (1, 2, 3):
            at = f"2026-01-0{night}T03:00:00Z"
            append(root, key, [line(session=f"{night:016x}", at=at)])
    return root


def test_a_history_has_a_heat_map_and_a_case_its_nights(nights: Path, tmp_path: Path) -> None:
    asked = (f"--history={nights}", "--machine=tpu-v5-lite/4r")
    _drawn(*asked, "-o", tmp_path / "a.svg")
    assert "tpu-v5-lite/4r: time over that of the first" in (tmp_path / "a.svg").read_text()
    _drawn(*asked, "--case=jax.all_reduce.psum.float32.4K", "-o", tmp_path / "b.svg")
    assert "jax all_reduce (psum), 4K: time by night" in (tmp_path / "b.svg").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--machine: "),
        (("--machine=x/4r",), "has no x/4r; it has amd-epyc-2c/4r, tpu-v5-lite/4r"),
        (("--machine=tpu-v5-lite/4r", "--case=x"), "--case: 'x'; accepted are jax.all_reduce."),
        (("--machine=tpu-v5-lite/4r", "--part=2"), "unrecognized arguments: --part=2"),
        (("--published=tpu-v2",), "what to draw: accepted are"),
    ],
)
def test_what_a_history_does_not_have_is_refused_with_what_it_has(
    nights: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    answer = asked_here("figure", f"--history={nights}", *options, "-o", tmp_path / "a.svg")
    _refused(answer, said)


@pytest.mark.parametrize("option", ["--machine=x/4r", "--case=x"])
def test_options_of_a_history_need_one(results: Path, tmp_path: Path, option: str) -> None:
    answer = asked_here("figure", results, option, "-o", tmp_path / "a.svg")
    _refused(answer, "is of a history; give --history=DIR with it")
