"""Files that commands read and write: refused by name, and nobody's own is written over."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.written import document, verdict
from tests.sweep import sweep

from .asked import ROOT, Answer, asked_here, command, of_today, put
from .test_prediction import _session as steps


def _curve(path: Path) -> tuple[str, ...]:
    return "estimate", f"--curve={path}", "--gradient-bytes=1MiB"


def _shapes(path: Path) -> tuple[str, ...]:
    return "estimate", f"--shapes={path}", "--ranks=2", "--bandwidth=1gbe"


def _results(path: Path) -> tuple[str, ...]:
    return "prediction", str(path)


def _prediction_curve(path: Path) -> tuple[str, ...]:
    return "prediction", str(path.parent / "missing"), f"--curve={path}"


QUESTIONS = (_curve, _shapes, _results, _prediction_curve)


def _folder(path: Path) -> None:
    path.mkdir()


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
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
NO_JSON = {
    _folder: ": is a folder; accepted is a file",
    loop: ": Too many levels of symbolic links",
    _empty: ":1:1: not JSON",
    _brackets: ": lists and objects are nested too deeply",
    _no_text: ": byte 0: not UTF-8",
    _digits: ": a whole number of 5001 digits",
}


each_question = pytest.mark.parametrize("question", QUESTIONS)
Question = Callable[[Path], tuple[str, ...]]


@each_question
@pytest.mark.parametrize(("become", "says"), (NO_JSON | ENDLESS).items())
def test_what_is_no_file_of_json_is_refused_by_name(
    tmp_path: Path, question: Question, become: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "named.json"
    become(path)
    # One that would be read on and on ends with its process.
    ask = command if become in ENDLESS else asked_here
    ask(*question(path)).refuses(f"{path}{says}")


NAMES = ["relative", "symbolic", "hard"]
GOOD = [[100.0, 120.0, 110.0], [90.0, 130.0, 105.0]]


def recording(folder: Path) -> Path:
    """A recording of one host, in TensorBoard's layout."""
    put(folder, "s", a_xplane=of_today(GOOD))
    return folder / "plugins" / "profile" / "s" / "a.xplane.pb"


def _recorded(folder: Path) -> tuple[Path, str, list[str | Path]]:
    return recording(folder), "--json", ["trace", folder, "--payload=1M"]


def _predicted(folder: Path) -> tuple[Path, str, list[str | Path]]:
    path = steps(folder / "a.json", 1.0)
    return path, "--document", ["prediction", path]


def _by_curve(folder: Path) -> tuple[Path, str, list[str | Path]]:
    path, curve = steps(folder / "a.json", 1.0), steps(folder / "b.json", 1.0)
    return curve, "--document", ["prediction", path, f"--curve={curve}"]


def _of_tpu_v2(folder: Path) -> tuple[Path, str, list[str | Path]]:
    path = folder / "published.json"
    path.write_text("{}")
    asked = ["--framework=fake", "--compile-cache=none", f"--baselines={folder}"]
    return path, "--document", ["tpu-v2", *asked]


def _drawn(folder: Path) -> tuple[Path, str, list[str | Path]]:
    path = folder / "night.svg"
    path.write_text(json.dumps(document(verdict(4096, 6.0))))
    return path, "--output", ["figure", path]


def _shown(folder: Path) -> tuple[Path, str, list[str | Path]]:
    path, option, _ = _drawn(folder)
    return path, option, ["page", path]


READ = (_recorded, _predicted, _by_curve, _of_tpu_v2, _drawn, _shown)
Read = Callable[[Path], tuple[Path, str, list[str | Path]]]


def named(path: Path, how: str) -> Path | str:
    """The same file by another name."""
    link = path.parent / "link"
    if how == "symbolic":
        link.symlink_to(path.name)
    if how == "hard":
        os.link(path, link)
    same: dict[str, Path | str] = {"path": path, "relative": os.path.relpath(path, ROOT)}
    return same.get(how, link)


@pytest.mark.parametrize(
    ("read", "how"),
    [*((one, "path") for one in READ), *((_predicted, how) for how in NAMES)],
)
def test_what_is_read_is_not_written_over(tmp_path: Path, read: Read, how: str) -> None:
    path, option, asked = read(tmp_path)
    before = path.read_bytes()
    answer = command(*asked, f"{option}={named(path, how)}")
    answer.refuses(f"{option}: ", "is read, too, and would be lost")
    assert path.read_bytes() == before


def _trace(folder: Path, output: Path) -> Answer:
    recording(folder / "in")
    return command("trace", folder / "in", "--payload=1M", f"--json={output}")


def _prediction(folder: Path, output: Path) -> Answer:
    return command("prediction", steps(folder / "a.json", 1.0), f"--document={output}")


def _tpu_v2(folder: Path, output: Path) -> Answer:
    return command("tpu-v2", "--framework=fake", "--compile-cache=none", f"--document={output}")


def _parameter_server(folder: Path, output: Path) -> Answer:
    asked = ("--framework=fake", "--rows=single", "--epochs=1")
    return command("parameter-server", *asked, f"--document={output}")


def _figure(folder: Path, output: Path) -> Answer:
    pytest.importorskip("vl_convert")
    return command("figure", "--published=tpu-v2", f"--output={_as(folder / 'out.svg', output)}")


def _png(folder: Path, output: Path) -> Answer:
    pytest.importorskip("vl_convert")
    return command("figure", "--published=tpu-v2", f"--output={_as(folder / 'out.png', output)}")


def _page(folder: Path, output: Path) -> Answer:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    *_, asked = _shown(folder)
    return command(*asked, f"--output={output}")


def _as(link: Path, output: Path) -> Path:
    """The same file by a name that ends as commands want it that draw."""
    if not link.is_symlink():
        link.symlink_to(output)
    return link


ASKED: dict[str, tuple[str, Callable[[Path, Path], Answer]]] = {
    "trace": ("--json", _trace),
    "prediction": ("--document", _prediction),
    "parameter-server": ("--document", _parameter_server),
    "figure": ("--output", _figure),
    "page": ("--output", _page),
    "tpu-v2": ("--document", _tpu_v2),
    "png": ("--output", _png),
}
each_command = pytest.mark.parametrize("name", ASKED)


@each_command
def test_somebody_s_file_is_not_written_over(tmp_path: Path, name: str) -> None:
    option, asked = ASKED[name]
    output = tmp_path / "notes"
    output.write_text("# My notes\n\nkeep them\n")
    asked(tmp_path, output).refuses(f"{option}: ", "holds something else than", "accepted is a new")
    assert output.read_text() == "# My notes\n\nkeep them\n"


@pytest.mark.parametrize("name", sweep(ASKED, in_gate=5))
def test_what_it_wrote_itself_is_written_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUSBW_FAKE", raising=False)
    _, asked = ASKED[name]
    output = tmp_path / "output"
    for _ in range(2):
        answer = asked(tmp_path, output)
        assert (answer.code, answer.err) == (0, "")
        assert output.stat().st_size
        shutil.rmtree(tmp_path / "in", ignore_errors=True)


@each_command
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    option, asked = ASKED[name]
    os.mkfifo(tmp_path / "fifo")
    asked(tmp_path, tmp_path / "fifo").refuses(f"{option}: ", "is a FIFO; accepted is a file")


@pytest.mark.parametrize("name", sweep(ASKED, in_gate=5))
def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path, name: str) -> None:
    option, asked = ASKED[name]
    answer = asked(tmp_path, Path("/dev/full"))
    (error,) = answer.errors
    assert error.endswith(": No space left on device")
    assert name == "trace" or (error.startswith("busbw ") and f": {option}: " in error)
    assert answer.code == 1


def test_a_page_in_json_is_written_again_too(tmp_path: Path) -> None:
    path, output = steps(tmp_path / "a.json", 1.0), tmp_path / "out.json"
    for _ in range(2):
        assert command("prediction", path, "--json", f"--document={output}").code == 0
    assert json.loads(output.read_text())


def test_a_disk_that_is_full_leaves_the_earlier_page_whole(tmp_path: Path) -> None:
    path, output = steps(tmp_path / "a.json", 1.0), tmp_path / "page.md"
    assert command("prediction", path, f"--document={output}").code == 0
    before = output.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "prediction", str(path), f"--document={output}"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    error = f"busbw prediction: --document: {output}: File too large\n"
    assert (done.returncode, done.stderr) == (1, error)
    assert output.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "page.md"]


@pytest.mark.parametrize(("name", "said"), [("file", "is no folder"), ("none", "there is no")])
def test_published_figures_are_looked_for_in_a_folder(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    asked = ("--framework=fake", "--compile-cache=none", f"--baselines={tmp_path / name}")
    command("tpu-v2", *asked).refuses("--baselines: ", said)


def test_a_cache_that_is_a_file_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.touch()
    answer = command("tpu-v2", "--framework=fake", f"--compile-cache={cache}")
    answer.refuses("--compile-cache: ", f"{cache} is no folder")
