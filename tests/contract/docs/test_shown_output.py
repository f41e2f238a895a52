"""Pages show the output that their commands print, and the picture of a recorded session."""

from __future__ import annotations

import re

import pytest

from tests.contract.docs import example
from tests.contract.docs.pages import ROOT
from tests.contract.docs.shown import read_outputs, unprinted
from tests.contract.page.test_figure_and_page import texts
from tests.helpers.command_line import asked_here
from tests.helpers.frameworks import needs
from tests.helpers.session_folder import Folder

_SHOWN = read_outputs(ROOT / "README.md")
_FIRST, _REGRESSED = (_SHOWN[command] for command in _SHOWN)


def test_the_readme_shows_the_output_of_a_session_with_a_regression() -> None:
    printed = example.lines(example.example())
    (letters,) = (line for line in _REGRESSED if line.startswith("perf/"))
    assert letters.split()[1] == "..F..F"
    lines = [line.removesuffix(" ...") for line in _REGRESSED if line.strip() and line != letters]
    expected = [line for line in printed if line.strip()]
    assert lines[:-1] == expected[:-1]
    assert expected[-1].startswith(lines[-1])


@pytest.mark.exhaustive
def test_the_documentation_picture_of_a_regression_equals_the_recorded_session() -> None:
    pytest.importorskip("vl_convert")
    drawn = example.picture(example.example())
    assert texts(drawn) == texts(example.PICTURE.read_text(encoding="utf-8"))
    assert "REGRESSED at 1M" in drawn


@pytest.mark.sessions
def test_the_readme_shows_the_output_of_a_first_session(folder: Folder) -> None:
    options = ("--frameworks=fake", "--payloads=4K:4M:4", "--launches=2")
    ran = folder.pytest("perf/", *options, exit_code=0, reports=False)
    printed = re.sub(r"(busbw: |--frameworks=)fake", r"\1jax", ran.text)
    printed = printed.replace("fake all_reduce (fake)", "jax all_reduce (psum)")
    assert unprinted(_FIRST, re.sub(r"--basetemp=\S+ -p \S+ ", "", printed)) == []


@needs("jax")
def test_the_documentation_of_programs_shows_the_collectives_of_its_example_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    words = ["program", "examples/dense_step.py:dense_step", "--ranks=4"]
    lines = read_outputs(ROOT / "docs" / "programs.md")[" ".join(["busbw", *words])]
    assert unprinted(lines, asked_here(*words).out) == []
