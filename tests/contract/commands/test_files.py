"""Files that commands read and write: invalid files are refused, and no input is overwritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.command_line import ROOT, Answer, asked_here, command
from tests.helpers.results_files import document, verdict
from tests.helpers.sweep import sweep


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def _brackets(path: Path) -> None:
    path.write_text("[" * 200_000 + "]" * 200_000)


def write_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def _digits(path: Path) -> None:
    path.write_text('{"cases": 1' + "0" * 5000 + "}")


ENDLESS = {
    os.mkfifo: ": is not a regular file",
    _endless: ": is not a regular file",
}
NO_JSON = {
    Path.mkdir: ": Is a directory",
    loop: ": Too many levels of symbolic links",
    Path.touch: "1:1: not JSON",
    _brackets: ": lists and objects are nested too deeply",
    write_no_text: ": byte 0: not UTF-8",
    _digits: ": a whole number of more than 4300 digits",
}


@pytest.mark.parametrize(("become", "says"), (NO_JSON | ENDLESS).items())
def test_the_summary_command_refuses_a_file_without_json_and_names_the_file(
    tmp_path: Path, become: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "named.json"
    become(path)
    # One that would be read on and on ends with its process.
    ask = command if become in ENDLESS else asked_here
    ask("summary", path).refuses(str(path), says)


NAMES = ["relative", "symbolic", "hard"]


def _results(folder: Path) -> Path:
    path = folder / "night.svg"
    path.write_text(json.dumps(document(verdict(4096, 6.0))))
    return path


# What is read, how it is named, and the option of what is written.
READ: list[tuple[Callable[[Path], Path], str, str]] = [
    (_results, "figure {path}", "--output"),
    (_results, "page {path}", "--output"),
]


def other_name_of(path: Path, how: str) -> Path | str:
    """Return another name of the same file."""
    link = path.parent / "link"
    if how == "symbolic":
        link.symlink_to(path.name)
    if how == "hard":
        os.link(path, link)
    same: dict[str, Path | str] = {"path": path, "relative": os.path.relpath(path, ROOT)}
    return same.get(how, link)


@pytest.mark.parametrize(
    ("read", "how"), [*((source, "path") for source in READ), *((READ[1], how) for how in NAMES)]
)
@pytest.mark.extension("page")
def test_a_command_does_not_overwrite_its_input_file_even_under_another_name(
    tmp_path: Path, read: tuple[Callable[[Path], Path], str, str], how: str
) -> None:
    made, template, option = read
    path = made(tmp_path)
    before = path.read_bytes()
    words = template.format(folder=tmp_path, path=path).split()
    command(*words, f"{option}={other_name_of(path, how)}").refuses(
        f"{option}: ", "is also an input and would be lost"
    )
    assert path.read_bytes() == before


WRITING = {
    "figure": "figure --published=tpu-v2 --output={folder}/out.svg",
    "page": "page {folder}/night.svg --output={output}",
    "png": "figure --published=tpu-v2 --output={folder}/out.png",
}
LIBRARIES = {
    "figure": ["vl_convert"],
    "png": ["vl_convert"],
    "page": ["altair", "jinja2", "vl_convert"],
}
OPTIONS = {name: words.split()[-1].partition("=")[0] for name, words in WRITING.items()}
each_command = pytest.mark.parametrize("name", WRITING)


def run_writing(name: str, folder: Path, output: Path) -> Answer:
    """Run the command that writes `output`; a drawing command needs a name with its suffix."""
    for library in LIBRARIES.get(name, ()):
        pytest.importorskip(library)
    if not (folder / "night.svg").exists():
        _results(folder)
        for link in ("out.svg", "out.png"):
            (folder / link).symlink_to(output)
    return command(*WRITING[name].format(folder=folder, output=output).split())


@each_command
@pytest.mark.extension("page")
def test_a_command_does_not_overwrite_a_file_that_busbw_did_not_write(
    tmp_path: Path, name: str
) -> None:
    output = tmp_path / "notes"
    output.write_text("# My notes\n\nkeep them\n")
    run_writing(name, tmp_path, output).refuses(
        f"{OPTIONS[name]}: ", " is not ", "or a new or empty file"
    )
    assert output.read_text() == "# My notes\n\nkeep them\n"


@pytest.mark.parametrize("name", sweep(WRITING))
@pytest.mark.extension("page")
def test_a_command_may_overwrite_a_file_that_the_same_command_wrote_earlier(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUSBW_FAKE", raising=False)
    output = tmp_path / "output"
    for _ in range(2):
        answer = run_writing(name, tmp_path, output)
        assert (answer.code, answer.err) == (0, "")
        assert output.stat().st_size


@pytest.mark.parametrize(
    ("become", "says"),
    [(os.mkfifo, ": is not a regular file"), (loop, ": Too many levels of symbolic links")],
)
@each_command
@pytest.mark.extension("page")
def test_a_command_refuses_an_output_path_that_is_a_pipe_or_a_loop_of_symbolic_links(
    tmp_path: Path, name: str, become: Callable[[Path], None], says: str
) -> None:
    become(tmp_path / "output")
    run_writing(name, tmp_path, tmp_path / "output").refuses(f"{OPTIONS[name]}: {tmp_path}/", says)
