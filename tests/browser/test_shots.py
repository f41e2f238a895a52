"""`python -m tests.browser.shots`: what it writes, and what it refuses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import chromium
from .shots import main
from .test_checks import FINE

ROOT = Path(__file__).parents[2]


def _size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")


@pytest.fixture
def asked() -> None:
    """Skip where no page is opened."""
    if reason := chromium.not_asked():
        pytest.skip(reason)


def test_each_page_has_a_folder_of_pictures(asked: None, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.html").write_text(FINE.replace("Fine", name))
    into = tmp_path / "into"
    pages = [str(tmp_path / f"{name}.html") for name in ("one", "two")]
    # In a process of its own: one has one driver of browsers.
    done = subprocess.run(
        [sys.executable, "-m", "tests.browser.shots", *pages, f"--into={into}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    written = [Path(line.removeprefix("wrote ")) for line in done.stdout.splitlines()]
    assert written == [path for name in ("one", "two") for path in _expected(into / name)]
    assert _size(into / "one" / "light.png")[0] == 1280
    assert _size(into / "one" / "400.png")[0] == 400
    assert (into / "one" / "print.pdf").read_bytes().startswith(b"%PDF-")
    pictures = [(into / "one" / f"{name}.png").read_bytes() for name in ("light", "dark")]
    assert pictures[0] != pictures[1]


def _expected(folder: Path) -> list[Path]:
    names = ["light.png", "dark.png", "400.png", "print.pdf"]
    return [folder / name for name in [*names, *(["print-1.png"] if _has_pdftoppm() else [])]]


def _has_pdftoppm() -> bool:
    return shutil.which("pdftoppm") is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.html", "--into=x"], "none.html is no file"),
        (["page.html"], "the following arguments are required: --into"),
        (["page.html", "page.html", "--into=x"], "the names must differ: page, page"),
    ],
)
def test_what_it_cannot_do_is_a_usage_error(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.html").write_text(FINE)
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err
    assert not Path("x").exists()


def test_without_a_browser_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.html").write_text(FINE)
    monkeypatch.setattr(chromium, "PACKAGES", {})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(chromium.PROGRAM, raising=False)
    with pytest.raises(chromium.BrowserError, match="apt-get install chromium, or name the prog"):
        chromium.program()
    monkeypatch.setenv(chromium.PROGRAM, "/none")
    with pytest.raises(chromium.BrowserError, match="BUSBW_CHROMIUM=/none is no program"):
        chromium.program()
    monkeypatch.setattr(chromium, "PACKAGES", {"busbw_none": "busbw-none"})
    assert main([str(tmp_path / "page.html"), f"--into={tmp_path / 'x'}"]) == 2
    said = "shots: not installed: busbw-none; `tox -e browser` installs them\n"
    assert capsys.readouterr().err == said
    assert not (tmp_path / "x").exists()
