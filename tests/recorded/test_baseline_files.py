"""Recorded baseline files are read, and what was read is written as it stood, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import wire
from busbw.baselines import compiled, document, files, timed
from busbw.baselines.store import contents_of

from .corpus import baseline_files

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
    if Path(path).parts[0] == files.COMPILED_FOLDER:
        stored = wire.from_json(compiled.CompiledDocument, document.read_json(file), "document")
        assert document.dumps(stored) == text
        return
    found = files.read(timed.TIMED, file)
    assert document.dumps(found) == text
    assert len(contents_of(file).baselines) == len(found.entries)
