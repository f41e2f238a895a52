"""`python -m busbw page`: pages of results and of a history, and every refusal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.history.files import append
from tests import build
from tests.history.lines import KEY, line
from tests.report.written import document, verdict

from .asked import Answer, asked_here


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The results of a session."""
    return _written(tmp_path / "night.json", verdict(4096, 6.0), verdict(8192, None))


def _written(path: Path, *verdicts: Any, **changes: Any) -> Path:
    path.write_text(json.dumps(document(*verdicts, **changes)))
    return path


def _page(*arguments: str | Path) -> str:
    """What the command writes."""
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    *_, output = arguments
    answer = asked_here("page", *arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    return Path(output).read_text()


def _refused(answer: Answer, *words: str) -> None:
    assert (answer.code, answer.out) == (2, "")
    for word in words:
        assert word in answer.err


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
    _refused(answer, f"--output: {output}", "a page of busbw page")
    assert "somebody's own" in output.read_text()


def test_its_input_is_never_replaced(results: Path) -> None:
    before = results.read_text()
    _refused(asked_here("page", results, "-o", results), "--output: ")
    assert results.read_text() == before


def test_nothing_to_show_is_a_usage_error(tmp_path: Path) -> None:
    _refused(
        asked_here("page", "-o", tmp_path / "a.html"),
        "accepted are files of --results, --history=DIR, or both",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[]", "document: expected an object"),
        ('{"schema": 9, "cases": []}', "this is of an earlier busbw (schema 9); accepted is "),
        ('{"schema": 2, "compilers": 1}', "(schema 2); accepted is 'busbw compiled results'"),
    ],
)
def test_a_bad_document_is_named_with_the_place(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    _refused(asked_here("page", path, "-o", tmp_path / "a.html"), f"{path}: ", said)
    assert not (tmp_path / "a.html").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = asked_here("page", tmp_path / "no.json", "-o", tmp_path / "a.html")
    _refused(answer, f"{tmp_path / 'no.json'}: ")


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


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """A history of one session of the machine of `results`, and of another machine."""
    root = tmp_path / "history"
    for key in (build.key(), KEY):
        append(root, key, [line()])
    return root


def test_with_a_history_the_nights_of_its_machine_are_there(
    results: Path, nights: Path, tmp_path: Path
) -> None:
    text = _page(results, f"--history={nights}", "-o", tmp_path / "a.html")
    assert "amd-epyc-2c/4r: 1 night from 2026-01-31" in text
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
    _refused(answer, "--machine: ", "has no x/4r; it has amd-epyc-2c/4r, tpu-v5-lite/4r")
    answer = asked_here("page", results, "--machine=x/4r", "-o", tmp_path / "a.html")
    _refused(answer, "--machine: is of a history")


def test_a_history_without_nights_of_the_session_is_refused(nights: Path, tmp_path: Path) -> None:
    other = _written(tmp_path / "b.json", verdict(4096, 6.0, ranks=8), key=build.key(ranks=8))
    answer = asked_here("page", other, f"--history={nights}", "-o", tmp_path / "a.html")
    _refused(answer, "--history: ", "has no amd-epyc-2c/8r")


@pytest.mark.parametrize("what", ["missing", "empty", "damaged"])
def test_a_history_that_cannot_be_read_is_named(nights: Path, tmp_path: Path, what: str) -> None:
    root = tmp_path / what
    if what == "empty":
        root.mkdir()
    if what == "damaged":
        (root / "a" / "4r").mkdir(parents=True)
        (root / "a" / "4r" / "2026.jsonl").write_text("{}\n")
    answer = asked_here("page", f"--history={root}", "-o", tmp_path / "a.html")
    _refused(answer, "--history: ", str(root))
