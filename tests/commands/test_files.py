"""Files named on a command line that are none: each has the command's own error and exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .asked import Answer, asked_here, command


def _curve(path: Path) -> tuple[str, ...]:
    return "estimate", f"--curve={path}", "--gradient-bytes=1MiB"


def _shapes(path: Path) -> tuple[str, ...]:
    return "estimate", f"--shapes={path}", "--ranks=2", "--bandwidth=1gbe"


def _prediction(path: Path) -> tuple[str, ...]:
    return "prediction", str(path)


def _prediction_curve(path: Path) -> tuple[str, ...]:
    return "prediction", str(path.parent / "missing"), f"--curve={path}"


ASKED = (_curve, _shapes, _prediction, _prediction_curve)


def _folder(path: Path) -> None:
    path.mkdir()


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _empty(path: Path) -> None:
    path.touch()


def _brackets(path: Path) -> None:
    path.write_text("[" * 200_000 + "]" * 200_000)


def _no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def _digits(path: Path) -> None:
    path.write_text('{"cases": 1' + "0" * 5000 + "}")


ENDLESS = {
    os.mkfifo: ": is a named pipe; accepted is a file",
    _endless: ": is a device or a socket; accepted is a file",
}
NONE = {
    _folder: ": is a folder; accepted is a file",
    _loop: ": Too many levels of symbolic links",
    _empty: ":1:1: not JSON",
    _brackets: ": lists and objects are nested too deeply",
    _no_text: ": byte 0: not UTF-8",
    _digits: ": a whole number of 5001 digits",
}


each_question = pytest.mark.parametrize("question", ASKED)
Question = Callable[[Path], tuple[str, ...]]


def _refused(path: Path, answer: Answer, says: str) -> None:
    assert (answer.code, answer.out) == (2, "")
    assert f"{path}{says}" in answer.errors[-1]


@each_question
@pytest.mark.parametrize(("become", "says"), NONE.items())
def test_what_is_no_file_of_json_is_refused_by_name(
    tmp_path: Path, question: Question, become: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "named.json"
    become(path)
    _refused(path, asked_here(*question(path)), says)


@each_question
@pytest.mark.parametrize(("become", "says"), ENDLESS.items())
def test_what_would_never_end_is_not_even_begun(
    tmp_path: Path, question: Question, become: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "named.json"
    become(path)
    _refused(path, command(*question(path)), says)
