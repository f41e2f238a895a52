"""Recorded baseline files are read, and what was read is written as it stood, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw import wire
from busbw.baselines import compiled, document, files, timed
from busbw.baselines.store import contents_of

from .corpus import baseline_files

FILES = [
    pytest.param(path, text, written, id=f"{number}-{path}")
    for number, (path, text, written) in enumerate(baseline_files())
]


def test_there_are_files_of_older_schemas() -> None:
    schemas = {json.loads(text)["schema"] for _, text, _ in baseline_files()}
    assert schemas == {1, 2}


@pytest.mark.parametrize(("path", "text", "written"), FILES)
def test_a_file_that_was_written_once_is_written_the_same(
    path: str, text: str, written: str, tmp_path: Path
) -> None:
    """One of an older schema is written as one of the newest, which says more of new sessions."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    if Path(path).parts[0] == files.COMPILED_FOLDER:
        stored = wire.from_json(compiled.CompiledDocument, document.read_json(file), "document")
        assert document.dumps(stored) == written
        return
    found = timed.read(file)
    newest = written.replace('"schema": 2', f'"schema": {timed.SCHEMA}', 1)
    assert document.dumps(found) == newest
    assert len(contents_of(file).baselines) == len(found.entries)
