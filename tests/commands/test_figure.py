"""`python -m busbw figure` and `page`: pictures and pages of files, and every refusal."""

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
    asked_here("figure", results, "-o", path).refuses("--output", "something else than a picture")
    assert path.read_text() == "<svg>mine</svg>"


def test_what_is_read_is_not_written_over(results: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.svg"
    link.symlink_to(results)
    before = results.read_bytes()
    asked_here("figure", results, "-o", link).refuses("--output", "is read, too")
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
    asked_here("figure", *options).refuses(*words)
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_a_bad_document_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    asked_here("figure", path, "-o", tmp_path / "a.svg").refuses(f"{path}: ")
    _written(path, verdict(4096, None))
    answer = asked_here("figure", path, "-o", tmp_path / "a.svg")
    answer.refuses(f"{path}: no bandwidth of a collective by itself")


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
    asked_here("figure", path, "-o", tmp_path / "a.svg").refuses("no program was compiled")
    asked_here("figure", path, results, "-o", tmp_path / "a.svg").refuses(
        "has a picture of its own"
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
    answer.refuses(said)


@pytest.mark.parametrize("option", ["--machine=x/4r", "--case=x"])
def test_options_of_a_history_need_one(results: Path, tmp_path: Path, option: str) -> None:
    answer = asked_here("figure", results, option, "-o", tmp_path / "a.svg")
    answer.refuses("is of a history; give --history=DIR with it")


def _page(*arguments: str | Path) -> str:
    """What the command writes."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    *_, output = arguments
    answer = asked_here("page", *arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    return Path(output).read_text()


def test_a_page_shows_the_session(results: Path, tmp_path: Path) -> None:
    text = _page(results, "-o", tmp_path / "a.html")
    assert text.startswith("<!DOCTYPE html>")
    for word in ("All-reduce on AMD EPYC, 4 ranks", "OUT_OF_MEMORY", "4K"):
        assert word in text


def test_an_earlier_page_is_replaced_and_no_other_file(results: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.html"
    _page(results, "-o", output)
    _page(results, "-o", output)
    output.write_text("<!DOCTYPE html><p>somebody's own")
    answer = asked_here("page", results, "-o", output)
    answer.refuses(f"--output: {output}", "a page of busbw page")
    assert "somebody's own" in output.read_text()


def test_its_input_is_never_replaced(results: Path) -> None:
    before = results.read_text()
    asked_here("page", results, "-o", results).refuses("--output: ")
    assert results.read_text() == before


def test_nothing_to_show_is_a_usage_error(tmp_path: Path) -> None:
    answer = asked_here("page", "-o", tmp_path / "a.html")
    answer.refuses("accepted are files of --results, --history=DIR, or both")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[]", "document: expected an object"),
        ('{"schema": 9, "cases": []}', "this is of an earlier busbw (schema 9); accepted is "),
    ],
)
def test_a_page_of_a_bad_document_names_it(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    asked_here("page", path, "-o", tmp_path / "a.html").refuses(f"{path}: ", said)
    assert not (tmp_path / "a.html").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = asked_here("page", tmp_path / "no.json", "-o", tmp_path / "a.html")
    answer.refuses(f"{tmp_path / 'no.json'}: ")


def test_without_the_libraries_it_says_what_to_install(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("jinja2", "vl_convert"):
        monkeypatch.setitem(sys.modules, name, None)
        answer = asked_here("page", results, "-o", tmp_path / "a.html")
        assert (answer.code, answer.out) == (1, "")
        assert "python -m pip install 'busbw[page]'" in answer.err
        assert not (tmp_path / "a.html").exists()
        monkeypatch.undo()


def test_a_full_disk_leaves_the_earlier_page(results: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.html"
    before = _page(results, "-o", output)
    answer = asked_here("page", results, "-o", "/dev/full")
    assert answer.code == 1 and "No space left on device" in answer.err
    assert output.read_text() == before


def test_with_a_history_the_nights_of_its_machine_are_there(
    results: Path, nights: Path, tmp_path: Path
) -> None:
    text = _page(results, f"--history={nights}", "-o", tmp_path / "a.html")
    assert "amd-epyc-2c/4r: 3 nights from 2026-01-01" in text
    assert "tpu-v5-lite" not in text


def test_a_history_alone_has_a_page_of_all_machines_or_of_one(nights: Path, tmp_path: Path) -> None:
    text = _page(f"--history={nights}", "-o", tmp_path / "a.html")
    assert "History of tpu-v5-lite/4r" in text and "History of amd-epyc-2c/4r" in text
    text = _page(f"--history={nights}", "--machine=tpu-v5-lite/4r", "-o", tmp_path / "a.html")
    assert "tpu-v5-lite/4r" in text and "amd-epyc" not in text


def test_a_machine_that_is_not_in_the_history_is_refused_with_those_that_are(
    nights: Path, results: Path, tmp_path: Path
) -> None:
    answer = asked_here("page", f"--history={nights}", "--machine=x/4r", "-o", tmp_path / "a.html")
    answer.refuses("--machine: ", "has no x/4r; it has amd-epyc-2c/4r, tpu-v5-lite/4r")
    answer = asked_here("page", results, "--machine=x/4r", "-o", tmp_path / "a.html")
    answer.refuses("--machine: is of a history")


def test_a_history_without_nights_of_the_session_is_refused(nights: Path, tmp_path: Path) -> None:
    other = _written(tmp_path / "b.json", verdict(4096, 6.0, ranks=8), key=build.key(ranks=8))
    answer = asked_here("page", other, f"--history={nights}", "-o", tmp_path / "a.html")
    answer.refuses("--history: ", "has no amd-epyc-2c/8r")


@pytest.mark.parametrize("what", ["missing", "empty", "damaged"])
def test_a_history_that_cannot_be_read_is_named(nights: Path, tmp_path: Path, what: str) -> None:
    root = tmp_path / what
    if what == "empty":
        root.mkdir()
    if what == "damaged":
        (root / "a" / "4r").mkdir(parents=True)
        (root / "a" / "4r" / "2026.jsonl").write_text("{}\n")
    answer = asked_here("page", f"--history={root}", "-o", tmp_path / "a.html")
    answer.refuses("--history: ", str(root))
