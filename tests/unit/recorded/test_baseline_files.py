"""Recorded baseline files are read, and what was read is written as it stood, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.baselines import document
from tests.helpers.recorded_sessions import baseline_files

FILES = [
    pytest.param(path, text, id=f"{number}-{path}")
    for number, (path, text) in enumerate(baseline_files())
]


@pytest.mark.parametrize(("path", "text"), FILES)
def test_a_file_that_was_written_once_is_written_the_same(
    path: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    is_compiled = Path(path).parts[0] == document.COMPILED_FOLDER
    codec: document.Codec[Any] = document.PROGRAMS if is_compiled else document.TIMED
    assert document.dumps(codec, document.read(codec, file)) == text
