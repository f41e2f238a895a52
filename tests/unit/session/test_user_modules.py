"""Functions that --program names, looked for in the text of their modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.session.user_modules import check_function

DEFINED = {
    "a function": "def step(devices): ...",
    "in a branch": "try:\n    from fast import step\nexcept ImportError:\n    step = None",
    "a value": "step = make()",
    "an import": "from other import train as step",
    "any name": "def __getattr__(name): ...",
    "all of another module": "from other import *",
    "written by a program": "globals()['st' + 'ep'] = 1",
    "no text of this Python": "def step(devices: ...",
}


@pytest.mark.parametrize("text", DEFINED.values(), ids=DEFINED)
def test_what_may_be_defined_is_left_to_the_worker(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    check_function(f"{tmp_path}/train.py:step", is_local=True)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("train.py:other", "defines no other; its functions are step, run"),
        ("train:other", "train defines no other; its functions are step, run"),
        ("pack.train:gone", "pack.train defines no gone"),
        ("trian:step", "there is no module trian here"),
        ("pack.trian:step", "there is no module pack.trian here"),
        ("train.trian:step", "there is no module train.trian here"),
    ],
)
def test_what_is_certainly_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, sentence: str
) -> None:
    text = "raise AssertionError\ndef step(devices): ...\ndef run(): ...\ndef _own(): ...\n"
    (tmp_path / "pack").mkdir()
    for path in (tmp_path / "train.py", tmp_path / "pack" / "train.py"):
        path.write_text(text)
    (tmp_path / "pack" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        check_function(source, is_local=True)


def test_a_module_of_another_interpreter_is_not_looked_for() -> None:
    check_function("trian:step", is_local=False)
