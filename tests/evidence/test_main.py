"""`python -m evidence`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence import corpus
from evidence.__main__ import main
from evidence.page import BEGIN, END

from . import synthetic

pytestmark = pytest.mark.exhaustive

QUICK = ("--replays=20", "--baseline-sessions=3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sessions = synthetic.corpus(5, shares=(0.5,), each=2)
    synthetic.write(tmp_path / f"jax{corpus.SUFFIX}", *sessions)
    return tmp_path


def test_page_writes_between_the_marks_what_replay_prints(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", f"--corpus={folder}", *QUICK])
    printed = capsys.readouterr().out
    assert printed.startswith("| rule |")
    assert "| asv continuous |" in printed
    document = folder / "page.md"
    document.write_text(f"above\n{BEGIN}\n{END}\nbelow\n")
    main(["page", f"--corpus={folder}", f"--document={document}", *QUICK])
    assert document.read_text() == f"above\n{BEGIN}\n\n{printed}\n{END}\nbelow\n"


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


def test_rates_prints_a_row_for_each_regime(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rates", "--only=3 cases", "--only=after 1, 0.5", "--devices=8"])
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| regime | shares in % (95 %) | wanted, % |"
    assert rows[2].startswith("| unchanged, 3 cases: red | mean ")
    assert rows[3].startswith("| +5 % in one after 1, 0.5/0.5: named | 1. ")
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "required: command"),
        (["pairs"], 2, "invalid choice: 'pairs'"),
        (["replay", "--replays=0"], 2, "0 is less than 1"),
        (["replay", "--corpus=nowhere"], 1, "no session with unchanged code"),
        (["replay", "--baseline-sessions=20"], 1, "has 9 other unchanged sessions"),
    ],
)
def test_what_cannot_be_done_ends_with_a_message(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code
    assert message in capsys.readouterr().err
