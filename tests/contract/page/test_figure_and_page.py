"""`python -m busbw figure` and `page`: pictures and pages of files, and every refusal."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from tests.helpers.command_line import Answer, asked_here
from tests.helpers.history_lines import documents, write
from tests.helpers.results_files import document, verdict

ROOT = Path(__file__).parents[3]
ONE = "--history=history --machine=tpu-v5-lite/4r"
THERE = "has no x/4r; it has amd-epyc-2c/4r, tpu-v5-lite/4r"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return the path of the results of a session."""
    return _written(tmp_path / "night.json", verdict(4096, 6.0), verdict(8192, None))


def _written(path: Path, *verdicts: Any, **changes: Any) -> Path:
    path.write_text(json.dumps(document(*verdicts, **changes)))
    return path


def _drawn(*arguments: str | Path) -> Answer:
    pytest.importorskip("vl_convert")
    answer = asked_here("figure", *arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    return answer


def test_the_figure_command_draws_the_curve_of_results_as_svg(
    results: Path, tmp_path: Path
) -> None:
    _drawn(results, "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for word in (">All-reduce: bus bandwidth<", ">jax psum<", ">OUT_OF_MEMORY<", ">4K<"):
        assert word in text


@pytest.mark.parametrize("name", ["a.png", "b.PNG"])
def test_the_figure_command_writes_a_png_with_two_pixels_for_each_unit_of_width(
    results: Path, tmp_path: Path, name: str
) -> None:
    _drawn(results, "-o", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 2 * 560


def test_the_figure_command_draws_a_curve_for_each_results_file(
    results: Path, tmp_path: Path
) -> None:
    other = _written(tmp_path / "b.json", verdict(4096, 5.0), host="b")
    _drawn(results, other, "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ">jax psum, on b<" in text and ">jax psum, night.json<" not in text


def test_the_figure_command_draws_published_rates_without_a_results_file(tmp_path: Path) -> None:
    _drawn("--published=tpu-v2", "-o", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert all(f">v2-{n} ({n} ranks)<" in text for n in (8, 32, 128, 512))


def texts(picture: str) -> list[str]:
    """Return the words of a picture, and last its text for screen readers."""
    elements = Tree.fromstring(picture).iter()
    kinds = ("style", "text", "tspan")
    texts = [element.text or "" for element in elements if element.tag.rpartition("}")[2] in kinds]
    return [*texts, Tree.fromstring(picture).get("aria-label", "")]


def test_the_documentation_picture_of_tpu_v2_equals_the_output_of_the_figure_command(
    tmp_path: Path,
) -> None:
    _drawn("--published=tpu-v2", "-o", tmp_path / "a.svg")
    drawn = texts((tmp_path / "a.svg").read_text())
    assert drawn == texts((ROOT / "docs" / "tpu-v2.svg").read_text())
    assert re.search("v2-8 .8 ranks. 0.2692 to 87.96; .*; OUT_OF_MEMORY at 1024M, 256M", drawn[-1])


@pytest.mark.parametrize(
    ("command", "library"), [("figure", "altair"), ("figure", "vl_convert"), ("page", "jinja2")]
)
def test_the_figure_and_page_commands_say_what_to_install_if_a_library_is_missing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    answer = asked_here(command, results, "-o", tmp_path / "a.svg")
    assert (answer.code, answer.out) == (1, "")
    assert "pip install 'busbw[page]'" in answer.err
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize("command", ["figure", "page"])
@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), ("", "not JSON")])
def test_the_figure_and_page_commands_name_results_that_cannot_be_read(
    tmp_path: Path, command: str, content: str | None, message: str
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    asked_here(command, path, "-o", tmp_path / "a.svg").refuses(f"{path}: ", message)
    assert not (tmp_path / "a.svg").exists()


@pytest.fixture
def history_of_two_machines(tmp_path: Path) -> Path:
    """Return a history of three sessions on each of two machines."""
    root = tmp_path / "history"
    for machine in ("tpu-v5-lite/4r", "amd-epyc-2c/4r"):
        for day in (1, 2, 3):
            began = f"2026-01-0{day}T03:00:00Z"
            write(root, machine, documents(f"{day:016x}", cases=1, moment=began))
    return root


def test_the_figure_command_draws_a_history_as_a_heat_map_or_as_the_sessions_of_a_case(
    history_of_two_machines: Path, tmp_path: Path
) -> None:
    machine = (f"--history={history_of_two_machines}", "--machine=tpu-v5-lite/4r")
    _drawn(*machine, "-o", tmp_path / "a.svg")
    assert (
        "tpu-v5-lite/4r: time over that of the first 20 sessions"
        in (tmp_path / "a.svg").read_text()
    )
    _drawn(*machine, "--case=jax.all_reduce.psum.float32.1K", "-o", tmp_path / "b.svg")
    assert "jax all_reduce (psum), 1K: time by session" in (tmp_path / "b.svg").read_text()


def _page(*arguments: str | Path) -> str:
    """Return the text of the page that the command writes."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    *_, output = arguments
    answer = asked_here("page", *arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    return Path(output).read_text()


def test_the_page_command_shows_the_session_of_the_results(results: Path, tmp_path: Path) -> None:
    text = _page(results, "-o", tmp_path / "a.html")
    assert text.startswith("<!DOCTYPE html>")
    for word in ("All-reduce on AMD EPYC, 4 ranks", "OUT_OF_MEMORY", "4K"):
        assert word in text


def test_the_page_command_shows_only_the_history_of_the_machine_of_the_results(
    results: Path, history_of_two_machines: Path, tmp_path: Path
) -> None:
    text = _page(results, f"--history={history_of_two_machines}", "-o", tmp_path / "a.html")
    assert "amd-epyc-2c/4r: 3 sessions from 2026-01-01" in text
    assert "tpu-v5-lite" not in text


def test_the_page_command_shows_a_history_of_all_machines_or_of_the_named_machine(
    history_of_two_machines: Path, tmp_path: Path
) -> None:
    text = _page(f"--history={history_of_two_machines}", "-o", tmp_path / "a.html")
    assert "History of tpu-v5-lite/4r" in text and "History of amd-epyc-2c/4r" in text
    text = _page(
        f"--history={history_of_two_machines}",
        "--machine=tpu-v5-lite/4r",
        "-o",
        tmp_path / "a.html",
    )
    assert "tpu-v5-lite/4r" in text and "amd-epyc" not in text


@pytest.mark.parametrize("fault", ["missing", "empty", "damaged"])
def test_the_page_command_names_a_history_that_cannot_be_read(
    history_of_two_machines: Path, tmp_path: Path, fault: str
) -> None:
    root = tmp_path / fault
    if fault == "empty":
        root.mkdir()
    if fault == "damaged":
        (root / "a" / "4r").mkdir(parents=True)
        (root / "a" / "4r" / "2026.jsonl").write_text("{}\n")
    asked_here("page", f"--history={root}", "-o", tmp_path / "a.html").refuses(str(root))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("figure -o a.svg", ["expected files of --results, --published=DEVICE or --history"]),
        ("figure x.json --published=tpu-v2 -o a.svg", ["expected files of --results"]),
        ("figure x.json -o a.pdf", ["--output: expected one of .svg, .png, got '.pdf'"]),
        ("figure x.json -o a", ["--output: expected one of .svg, .png, got ''"]),
        ("figure x.json", ["the following arguments are required: -o/--output"]),
        ("figure x.json -o a.svg --width=400", ["unrecognized arguments: --width=400"]),
        ("figure x.json -o a.svg --theme=dark", ["unrecognized arguments: --theme=dark"]),
        (
            "figure --published=tpu-v9 -o a.svg",
            ["--published: ", "baselines: expected one of tpu-v2, got 'tpu-v9'"],
        ),
        (
            "figure --published=tpu-v2 --baselines=/dev -o a.svg",
            ["--published: /dev: expected one of , got 'tpu-v2'"],
        ),
        ("figure x.json -o no/such/a.svg", ["--output: ", "there is no folder"]),
        ("figure untimed.json -o a.svg", ["untimed.json: no bandwidth of a collective by itself"]),
        (
            "figure --history=history -o a.svg",
            ["--machine: expected one of ", ", which history has"],
        ),
        ("figure --history=history --machine=x/4r -o a.svg", ["--machine: ", THERE]),
        (f"figure {ONE} --case=x -o a.svg", ["--case: expected one of jax.all_reduce."]),
        (f"figure {ONE} --part=2 -o a.svg", ["unrecognized arguments: --part=2"]),
        (f"figure {ONE} --published=tpu-v2 -o a.svg", ["expected files of --results"]),
        ("figure x.json --machine=x/4r -o a.svg", ["--machine: expected --history"]),
        ("figure x.json --case=x -o a.svg", ["--case: expected --history=DIR with"]),
        ("page -o a.html", ["expected files of --results, --history=DIR, or both"]),
        ("page x.json --machine=x/4r -o a.html", ["--machine: expected --history=DIR"]),
        ("page --history=history --machine=x/4r -o a.html", ["--machine: ", THERE]),
    ],
)
def test_invalid_options_of_the_figure_and_page_commands_are_usage_errors(
    command: str,
    words: list[str],
    history_of_two_machines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    _written(tmp_path / "x.json", verdict(4096, 6.0))
    _written(tmp_path / "untimed.json", verdict(4096, None))
    before = sorted(tmp_path.iterdir())
    asked_here(*command.split()).refuses(*words)
    assert sorted(tmp_path.iterdir()) == before
