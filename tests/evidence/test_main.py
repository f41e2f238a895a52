"""`python -m evidence`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evidence import corpus
from evidence.__main__ import main
from evidence.page import BEGIN, END

from . import synthetic

pytestmark = pytest.mark.exhaustive

QUICK = ("--replays=20", "--baseline-sessions=3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for session in synthetic.corpus(5, shares=(0.5,), each=2):
        corpus.append(session, tmp_path / f"jax{corpus.SUFFIX}")
    return tmp_path


def test_replay_prints_the_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", f"--corpus={folder}", *QUICK])
    printed = capsys.readouterr().out
    assert printed.startswith("| rule |")
    assert "| asv continuous |" in printed
    assert "20 replays" in printed


def test_pairs_prints_a_table_of_simulated_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    main(["pairs", "--sessions=1"])
    assert capsys.readouterr().out.startswith("| cases | noise of a pair |")


def test_page_writes_them_between_the_marks(folder: Path) -> None:
    document = folder / "page.md"
    document.write_text(f"above\n{BEGIN}\n{END}\nbelow\n")
    main(["page", f"--corpus={folder}", f"--document={document}", *QUICK])
    text = document.read_text()
    assert text.startswith(f"above\n{BEGIN}\n\n| rule |")
    assert text.endswith(f"\n\n{END}\nbelow\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "required: command"),
        (["replay", "--replays=0"], 2, "0 is less than 1"),
        (["replay", "--corpus=nowhere"], 1, "no session with unchanged code"),
        (["replay", "--baseline-sessions=9"], 1, "has 4 other unchanged sessions"),
    ],
)
def test_what_cannot_be_replayed_ends_with_a_message(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    place = [f"--corpus={folder}"] if len(arguments) == 2 and "corpus" not in arguments[1] else []
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *place])
    assert ended.value.code == code
    assert message in capsys.readouterr().err


def test_a_page_without_marks_is_left_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = folder / "page.md"
    document.write_text("by hand\n")
    with pytest.raises(SystemExit) as ended:
        main(["page", f"--corpus={folder}", f"--document={document}", *QUICK])
    assert ended.value.code == 1
    assert f"the mark {BEGIN} is there 0 times" in capsys.readouterr().err
    assert document.read_text() == "by hand\n"


def test_record_is_given_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    module = ModuleType("evidence.record")
    module.__dict__["main"] = asked.append
    monkeypatch.setitem(sys.modules, "evidence.record", module)
    main(["record", "--sessions=3"])
    assert asked == [["--sessions=3"]]
