"""Core files import no more files of optional features than `core_imports.json` lists."""

from __future__ import annotations

import pytest

from tests.structure import core_imports, sources


def test_the_core_imports_only_the_optional_files_that_are_listed() -> None:
    assert core_imports.measure(sources.python_files()) == core_imports.read()


def test_each_pattern_matches_a_file() -> None:
    features = {core_imports.feature(path) for path, _ in sources.python_files()}
    assert features >= set(core_imports.FEATURES)


@pytest.mark.parametrize(
    "line",
    [
        "import busbw.judge.paired",
        "from busbw.judge.paired import decide",
        "from busbw.judge import paired",
        "from .paired import decide",
        "from . import paired",
    ],
)
def test_each_form_of_an_import_is_counted(line: str) -> None:
    files = [("busbw/judge/session.py", line), ("busbw/judge/paired.py", "x = 1")]
    assert core_imports.measure(files) == [("busbw/judge/session.py", "busbw/judge/paired.py")]
